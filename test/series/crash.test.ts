/**
 * kill -9 of the whole pipeline at critical moments. Each answer that a client received in full is on the log once,
 * scored once and trained on once; versions and conversations continue, and PostgreSQL equals the log.
 */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type OpenAI from 'openai'
import { TABLES } from '../../packages/projections/src/schema.ts'
import { integer, seeded } from '../../models/tiny/recipe/random.ts'
import { untilNothingLeft } from '../chaos/world/orphans.ts'
import { begin, commanding, dataFolder, done, instar, sql, up, type Up } from '../flow/process.ts'
import { ask, askWhole, question, reaction, type Answer, type Messages } from '../kit/people.ts'
import { BATCH, witness, type Witness } from '../flow/witness.ts'

/** CRASH_SEED changes the moments. */
const SEED = Number(process.env['CRASH_SEED'] ?? 2026)
const random = seeded(SEED)
const LANES = 4
/** Delay between conversations, which leaves CPU time for training. */
const BREATH_MS = 300
/** A missed moment is tried again. */
const TRIES = 4

/** `follows`: the answer that the request continued, as the client has it. */
type Received = Answer & { follows: string | null }
/** A conversation whose last message is to be sent next. */
type Open = { messages: Messages; session: string; follows: string }

const ledger = {
  received: [] as Received[],
  /** Sent, with a cut answer: to be sent again. */
  cut: [] as Open[],
  /** Answered: to be continued. */
  pausing: [] as Open[],
  next: 0,
}

/** Clients that send requests until the pipeline is gone. `onPiece` is called with each piece of any answer. */
const traffic = (client: OpenAI, onPiece: () => void): Promise<unknown> => {
  const say = async (
    messages: Messages,
    follows: string | null,
    extra: { user: string; session?: string },
    whole: boolean,
  ): Promise<Received> => {
    const answer = {
      ...(whole ? await askWhole(client, messages, extra) : await ask(client, messages, { ...extra, onPiece })),
      follows,
    }
    ledger.received.push(answer)
    return answer
  }
  const talk = async (i: number, whole: boolean): Promise<void> => {
    const extra = { user: `person ${Math.floor(i / 2) % 4}`, ...(i % 4 < 2 ? { session: `crash-${i}` } : {}) }
    const messages: Messages = [{ role: 'user', content: question(i) }]
    const first = await say(messages, null, extra, whole)
    messages.push({ role: 'assistant', content: first.text }, { role: 'user', content: reaction(i).says })
    const open = { messages, session: first.session, follows: first.turn }
    try {
      const second = await say([...messages], first.turn, extra, whole)
      ledger.pausing.push({
        messages: [
          ...messages,
          { role: 'assistant', content: second.text },
          { role: 'user', content: 'Thanks, that is just how I like it.' },
        ],
        session: second.session,
        follows: second.turn,
      })
    } catch (error) {
      ledger.cut.push(open)
      throw error
    }
  }
  const lane = async (whole: boolean): Promise<void> => {
    for (;;) {
      await talk(ledger.next++, whole)
      await pause(BREATH_MS)
    }
  }
  return Promise.allSettled(Array.from({ length: LANES }, (_, n) => lane(n === 0)))
}

type Moment = {
  name: string
  /** Maximum delay between the event and the kill, ms. */
  within: number
  /** Resolves at the event. `pieces`: of answers, since the start. */
  comes(seen: Witness, pieces: () => Promise<void>): Promise<unknown>
  /** Whether the kill came in time. */
  hit(seen: Witness): boolean
}

const counted = (seen: Witness): number => seen.chain.batches.length

const MOMENTS: readonly Moment[] = [
  { name: 'in mid-stream', within: 5, comes: (_, pieces) => pieces(), hit: () => ledger.cut.length > 0 },
  {
    name: 'during scoring',
    within: 0,
    comes: (seen) => {
      const turns = [...seen.turns.turns.values()].filter((turn) => turn.next !== null).length
      return seen.until(
        'a reaction',
        () => [...seen.turns.turns.values()].filter((turn) => turn.next !== null).length > turns,
      )
    },
    hit: () => true,
  },
  {
    name: 'during a training step',
    within: 60,
    comes: (seen) => {
      const before = counted(seen)
      return seen.until('a sealed batch', () => counted(seen) > before)
    },
    hit: (seen) => seen.chain.batches.at(-1)?.status === 'sealed',
  },
  {
    name: 'between an update and its verdict',
    within: 60,
    comes: (seen) => {
      const before = counted(seen)
      return seen.until('an update', () => counted(seen) > before && seen.chain.batches.at(-1)?.status === 'computed')
    },
    hit: (seen) => seen.chain.batches.at(-1)?.status === 'computed' && !seen.isSettled(seen.chain.batches.at(-1)!),
  },
  {
    name: 'right after a verdict',
    within: 10,
    comes: (seen) => {
      const before = seen.line.verdicts.size
      return seen.until('a verdict', () => seen.line.verdicts.size > before)
    },
    hit: () => true,
  },
  { name: 'at any time', within: 2500, comes: async () => undefined, hit: () => true },
]

describe('kill -9', { timeout: 280_000 }, () => {
  const data = dataFolder()
  let seen: Witness | null = null
  after(() => seen?.stop())

  /** Starts the pipeline and checks that it continues from the last state. */
  const started = async (): Promise<Up> => {
    const pipeline = await up(data)
    seen ??= await witness(data)
    await seen.caughtUp()
    equal(pipeline.ready.version, seen.line.head)
    return pipeline
  }

  /** Continues conversations from before the kill: cut requests are repeated, answered ones are continued. */
  const goOn = async (client: OpenAI): Promise<void> => {
    const open = [...ledger.cut.splice(0), ...ledger.pausing.splice(0, 2)]
    await Promise.all(
      open.map(async ({ messages, session, follows }) => {
        const answer = await ask(client, messages)
        ledger.received.push({ ...answer, follows })
        equal(answer.session, session)
      }),
    )
    await seen?.caughtUp()
    for (const { turn, follows } of ledger.received) equal(seen?.turns.turns.get(turn)?.follows, follows)
  }

  const killAt = async ({ within, comes, hit }: Moment): Promise<boolean> => {
    const pipeline = await started()
    await goOn(pipeline.client)
    const witness_ = seen!
    const wanted = integer(random, 3, 40)
    const enough = Promise.withResolvers<void>()
    let pieces = 0
    const came = comes(witness_, () => enough.promise)
    const people = traffic(pipeline.client, () => {
      pieces += 1
      if (pieces === wanted) enough.resolve()
    })
    await came
    await pause(integer(random, 0, within))
    await pipeline.kill()
    await people
    await witness_.caughtUp()
    return ledger.received.length > 0 && hit(witness_)
  }

  for (const moment of MOMENTS) {
    test(moment.name, async (t) => {
      for (let n = 1; ; n += 1) {
        if (await killAt(moment)) return t.diagnostic(`hit at try ${n}; ${seen!.summary()}`)
        if (n === TRIES) throw new Error(`missed ${TRIES} times: ${seen!.summary()}`)
      }
    })
  }

  test('kill -9 right after a start, before and after readiness', async () => {
    for (const within of [300, 1500]) {
      const { pid, ended } = begin(data)
      await pause(integer(random, 0, within))
      process.kill(pid, 'SIGKILL')
      await ended
    }
    await (await started()).kill()
  })

  test('kill -9 during a rollback leaves it complete or absent', async () => {
    const pipeline = await started()
    const before = seen!.line.moves.length
    const order = fetch(`${pipeline.ready.url}/admin/rollback`, {
      method: 'POST',
      headers: commanding(data),
      body: JSON.stringify({ version: 0 }),
    })
    order.catch(() => undefined)
    await pause(integer(random, 0, 12))
    await pipeline.kill()
    await seen!.caughtUp()
    const moved = seen!.line.moves.length > before
    const again = await started()
    deepEqual([again.ready.version === 0, again.ready.frozen], [moved, moved])
    equal((await ask(again.client, [{ role: 'user', content: question(0) }])).version, again.ready.version)
    equal((await done<{ frozen: boolean }>({ data, url: again.ready.url }, 'thaw')).frozen, false)
    await again.kill()
  })

  test('kill -9 during a replay leaves an unfinished branch, which is not promoted, and a new replay succeeds', async () => {
    const pipeline = await started()
    await seen!.learned()
    const order = fetch(`${pipeline.ready.url}/admin/replay`, {
      method: 'POST',
      headers: commanding(data),
      body: JSON.stringify({ branch: 'cut' }),
    }).then((response) => response.text())
    order.catch(() => undefined)
    await seen!.until('the first batch of the branch', () => seen!.branch('cut').line.versions.size > 1)
    await pipeline.kill()
    const again = await started()
    const where = { data, url: again.ready.url }
    const promoted = await instar(where, 'promote', 'cut', '--json')
    deepEqual([promoted.code, (promoted.json as { error?: { code: string } }).error?.code], [1, 'unfinished_branch'])
    equal((await done<{ equal: boolean }>(where, 'replay', '--branch', 'whole')).equal, true)
    await again.kill()
  })

  test('after all kills no answered turn is lost or duplicated', async () => {
    const pipeline = await started()
    await goOn(pipeline.client)
    const log = seen!
    await log.learned()
    const captured = log.events('TurnCaptured')
    for (const { turn, text, session } of ledger.received) {
      const records = captured.filter((event) => event.turn === turn)
      equal(records.length, 1, `${turn} is on the log ${records.length} times`)
      deepEqual([Buffer.from(records[0]!.text.bytes).toString(), records[0]!.session], [text, session])
    }
    const scored = [...log.events('TurnScored'), ...log.events('TurnSkipped')].map((event) => event.turn)
    equal(new Set(scored).size, scored.length, 'no turn is scored twice')
    const joined = [...log.turns.turns.values()].filter((turn) => turn.next !== null && turn.trainable)
    deepEqual(
      joined.filter((turn) => !log.scores.turns.has(turn.turn)),
      [],
      'every turn that was reacted to is scored',
    )
    ok(joined.length >= 2 * BATCH)

    const { batches } = log.chain
    deepEqual(
      batches.map(({ sealed }) => sealed.number),
      batches.map((_, i) => i + 1),
    )
    ok(batches.length >= 3)
    ok(
      batches.every((batch) => log.isSettled(batch)),
      log.summary(),
    )
    const spent = batches.flatMap(({ sealed }) => [
      ...sealed.items.map((item) => item.turn),
      ...sealed.dropped.map((drop) => drop.turn),
    ])
    equal(new Set(spent).size, spent.length, 'no turn is in two batches')
    const ours = <T extends { policy: string }>(events: T[]): number =>
      events.filter(({ policy }) => policy === 'policy').length
    equal(ours(log.events('UpdateComputed')) + ours(log.events('UpdateFailed')), batches.length)
    deepEqual(
      [...log.line.versions.keys()],
      [...log.line.versions.keys()].map((_, i) => i),
    )
    equal(
      ours(log.events('VersionPublished')) + ours(log.events('VersionRejected')),
      ours(log.events('UpdateComputed')),
    )
    equal(ours(log.events('LineStarted')), 1)
    deepEqual(log.ignored, [])

    equal((await done<{ ok: boolean }>({ data }, 'verify', 'all')).ok, true)
    equal(await pipeline.stop(), 0)
  })

  test('after all kills the tables of PostgreSQL equal a rebuild from the log', async () => {
    const tables = [...Object.keys(TABLES), 'offsets'].toSorted()
    const digests = (): Promise<{ name: string; rows: number; digest: string }[]> =>
      sql(
        { data },
        tables
          .map(
            (name) =>
              `select '${name}' as name, count(*)::int as rows, md5(coalesce(string_agg(t::text, E'\\n' order by t::text), '')) as digest from "${name}" t`,
          )
          .join(' union all '),
      )
    const there = await sql<{ table_name: string }>(
      { data },
      "select table_name from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE' and table_name <> 'instar_migrations'",
    )
    deepEqual(there.map((row) => row.table_name).toSorted(), tables)
    const before = await digests()
    await untilNothingLeft(data)
    rmSync(join(data, 'postgres'), { recursive: true })
    deepEqual(await digests(), before)
    equal(before.find(({ name }) => name === 'turns')?.rows, seen!.turns.turns.size)
    equal(before.find(({ name }) => name === 'all_scores')?.rows, seen!.scores.turns.size)
    equal(
      before.find(({ name }) => name === 'all_versions')?.rows,
      ['cut', 'whole'].reduce((sum, name) => sum + seen!.branch(name).line.versions.size, seen!.line.versions.size),
    )
  })
})
