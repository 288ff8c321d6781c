/**
 * The pipeline as a user sees it: conversations and corrections; versions are published, served, rolled back, verified,
 * replayed and promoted.
 */
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { untilNothingLeft } from '../chaos/world/orphans.ts'
import { dataFolder, done, instar, serves, sql, up, type Up } from './process.ts'
import { ask, question, sessions, talkInBackground, type Session } from '../kit/people.ts'
import { BATCH, witness, type Witness } from './witness.ts'

/** Batches that the gate may reject before one is accepted. */
const PATIENCE = 6

type Verified = { ok: boolean; batches: { batch: number; version: number | null; mode: string; ok: boolean }[] }
type Replayed = {
  branch: string
  equal: boolean | null
  batches: number
  versions: number
  adapter: string
  trusted: { batches: number } | null
}
type Listed = { version: number; parent: number | null; status: string; sha256: string | null; why: string }

describe('the pipeline from the first request to a promoted branch', { timeout: 280_000 }, () => {
  const data = dataFolder()
  let pipeline: Up
  let seen: Witness
  let where: { data: string; url: string }
  const talks: Session[] = []

  /** Sessions in parallel until the gate has accepted a version after `after`. */
  const teach = async (after: number): Promise<number> => {
    for (let wave = 0; wave < PATIENCE; wave += 1) {
      talks.push(...(await sessions(pipeline.client, talks.length, BATCH)))
      await seen.learned()
      const newest = Math.max(...seen.line.versions.keys())
      if (newest > after) return newest
    }
    throw new Error(`the gate rejected ${PATIENCE} batches: ${seen.summary()}`)
  }

  before(async () => {
    pipeline = await up(data)
    where = { data, url: pipeline.ready.url }
    seen = await witness(data)
  })
  after(() => seen.stop())

  test('the pipeline starts on the base of the shipped model', () => {
    const { version, frozen, url, psql, model } = pipeline.ready
    deepEqual({ version, frozen, model, data: pipeline.ready.data }, { version: 0, frozen: false, model: 'tiny', data })
    match(url, /^http:\/\/127\.0\.0\.1:\d+$/)
    match(psql, /^psql /)
  })

  test('a streamed answer has pieces before its end, headers and usage, and its turn is on the log as sent', async () => {
    const answer = await ask(
      pipeline.client,
      [{ role: 'user', content: 'Which animal says moo? Explain it in several sentences.' }],
      { maxTokens: 32, user: 'reader' },
    )
    ok(answer.pieces >= 4, `${answer.pieces} pieces`)
    ok(answer.firstAt < answer.endedAt)
    equal(answer.version, 0)
    ok(answer.turn.startsWith(`${answer.session}.`))
    await seen.caughtUp()
    const turn = seen.events('TurnCaptured').find((event) => event.turn === answer.turn)
    ok(turn, 'captured before answered')
    equal(Buffer.from(turn.text.bytes).toString(), answer.text)
    equal(turn.ids.length, turn.logprobs.length)
    ok(turn.logprobs.every((logprob) => logprob <= 0))
    deepEqual([answer.usage?.prompt_tokens, answer.usage?.completion_tokens], [turn.prompt.length, turn.ids.length])
    equal(answer.finish, turn.finish)
  })

  test('a whole answer has the same headers', async () => {
    const { data: answer, response } = await pipeline.client.chat.completions
      .create(
        { model: 'policy', max_tokens: 8, messages: [{ role: 'user', content: question(3) }] },
        { headers: { 'x-session-id': 'whole' } },
      )
      .withResponse()
    equal(answer.choices.length, 1)
    equal(response.headers.get('x-instar-version'), '0')
    equal(response.headers.get('x-instar-session-id'), 'whole')
    equal(answer.usage!.total_tokens, answer.usage!.prompt_tokens + answer.usage!.completion_tokens)
  })

  test(`${BATCH} rated turns become a version while another client sends requests`, async () => {
    const other = talkInBackground(pipeline.client)
    equal(await teach(0), 1)
    await serves(pipeline, 1)
    const next = await ask(pipeline.client, [{ role: 'user', content: question(1) }])
    equal(next.version, 1)
    const answers = await other.stop()
    ok(answers.length > 0)
    const versions = answers.map((answer) => answer.version)
    deepEqual(
      versions,
      versions.toSorted((a, b) => a - b),
      'no request is answered by an older version than the one before it',
    )
    for (const { first, second, reward } of talks) {
      const turn = seen.turns.turns.get(first.turn)
      equal(turn?.next, second.turn, 'the reaction is the next state')
      equal(second.session, first.session)
      equal(seen.scores.turns.get(first.turn)?.reward, reward)
    }
    const [batch] = seen.chain.batches
    equal(batch!.sealed.items.length, BATCH)
    deepEqual(seen.events('TurnAborted'), [])
    deepEqual(seen.ignored, [])
  })

  test('a version that is no longer the head can be requested', async () => {
    equal((await ask(pipeline.client, [{ role: 'user', content: question(5) }], { model: 'policy@0' })).version, 0)
  })

  test('feedback revises the score of its turn', async () => {
    const { first } = talks.find(({ reward }) => reward === 1)!
    const before = seen.scores.turns.get(first.turn)!
    const response = await fetch(`${where.url}/v1/feedback`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ turn_id: first.turn, value: -0.5, comment: 'Please write one plain sentence.' }),
    })
    equal(response.status, 200)
    const after = await seen.until('the revised score', () => {
      const score = seen.scores.turns.get(first.turn)
      return score?.revision === 1 && score
    })
    deepEqual([before.revision, before.reward, after.reward], [0, 1, -0.5])
    await seen.projected(data)
    const rows = await sql<{ revision: number; reward: number; judge: string }>(
      where,
      `select turn_id, revision, reward, judge, hint from scores where turn_id = '${first.turn}' order by revision`,
    )
    deepEqual(
      rows.map(({ revision, reward }) => [revision, reward]),
      [
        [0, 1],
        [1, -0.5],
      ],
    )
    match(rows[0]!.judge, /^reactions/)
    equal(rows[1]!.judge, 'feedback')
  })

  test('feedback for an unknown turn gives 404', async () => {
    const response = await fetch(`${where.url}/v1/feedback`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ turn_id: `nobody.${'0'.repeat(32)}`, value: true }),
    })
    equal(response.status, 404)
  })

  test('the columns that scripts use have the values of the records', async () => {
    const { first, second } = talks[0]!
    const [turn] = await sql<Record<string, unknown>>(
      where,
      `select turn_id, session_id, version, dialect, kind, label_source, status, trainable, reason, next_turn_id, prompt_tokens, completion_tokens, started_at, finished_at from turns where turn_id = '${first.turn}'`,
    )
    const { started_at, finished_at, prompt_tokens, completion_tokens, ...rest } = turn!
    deepEqual(rest, {
      turn_id: first.turn,
      session_id: first.session,
      version: 0,
      dialect: 'chat',
      kind: 'main',
      label_source: 'header',
      status: 'complete',
      trainable: true,
      reason: null,
      next_turn_id: second.turn,
    })
    deepEqual([prompt_tokens, completion_tokens], [first.usage!.prompt_tokens, first.usage!.completion_tokens])
    ok(new Date(String(started_at)) <= new Date(String(finished_at)))
    const unlabelled = talks.find(
      ({ first: { turn: id } }) =>
        seen.events('TurnCaptured').find((event) => event.turn === id)?.labelSource === 'fingerprint',
    )!
    deepEqual(
      await sql(
        where,
        `select label_source from turns where session_id = '${unlabelled.first.session}' order by started_at`,
      ),
      [{ label_source: 'fingerprint' }, { label_source: 'answer' }],
    )
    const [counts] = await sql<Record<string, number>>(
      where,
      `select (select count(*) from turns) turns, (select count(*) from scores where revision = 0) scores, (select count(*) from version_turns where version = 1) trained, (select count(*) from ignored) ignored,
      (select turns from version_metrics where version = 0) served, (select trained_turns from version_metrics where version = 1) metric`,
    )
    equal(counts!['turns'], seen.turns.turns.size)
    equal(counts!['scores'], seen.scores.turns.size)
    deepEqual([counts!['trained'], counts!['metric'], counts!['ignored']], [BATCH, BATCH, 0])
    ok(counts!['served']! >= 2 * BATCH)
    const versions = await sql<Listed>(where, 'select version, parent, sha256, status from versions order by version')
    deepEqual(
      versions.map(({ version, parent, status }) => [version, parent, status]),
      [
        [0, null, 'superseded'],
        [1, 0, 'serving'],
      ],
    )
    equal(versions[1]!.sha256, seen.line.versions.get(1)?.adapter)
  })

  test('sql refuses statements that write', async () => {
    const said = await instar(where, 'sql', 'delete from offsets', '--json')
    deepEqual([said.code, (said.json as { error: { code: string } }).error.code], [1, 'bad_sql'])
  })

  test('versions and show give the same from the log as from the gateway', async () => {
    const listed = await done<Listed[]>(where, 'versions')
    deepEqual(
      listed.map(({ version, parent, status, why }) => [version, parent, status, why]),
      [
        [0, null, 'superseded', 'base'],
        [1, 0, 'serving', 'update'],
      ],
    )
    const shown = await done<{
      version: number
      sha256: string
      turns: { turn_id: string; version: number }[]
      gate: Record<string, number>
      update: { figures: Record<string, number> }
    }>(where, 'show', '1')
    equal(shown.sha256, listed[1]!.sha256)
    equal(shown.turns.length, BATCH)
    ok(shown.turns.every((turn) => seen.turns.turns.has(turn.turn_id) && turn.version === 0))
    ok(shown.gate['kl_parent']! > 0 && shown.gate['finite'] === 1)
    ok(shown.update.figures['steps']! > 0)
  })

  test('after a rollback the next request uses the old version within a second, and learning is frozen', async () => {
    const other = talkInBackground(pipeline.client)
    deepEqual(await done(where, 'rollback', '0', '--why', 'a test'), { head: 0, version: 0, frozen: true })
    equal((await ask(pipeline.client, [{ role: 'user', content: question(2) }])).version, 0)
    const [moved] = await seen.until('the move', () => {
      const moves = seen.events('HeadMoved')
      return moves.length > 0 && moves
    })
    deepEqual(
      [moved!.from, moved!.to, moved!.freeze, moved!.why, moved!.who],
      [1, 0, true, 'a test', 'cli (admin token)'],
    )
    await seen.until('traffic a second later', () =>
      seen.events('TurnCaptured').some((turn) => turn.at > moved!.at + 1000),
    )
    await other.stop()
    await seen.caughtUp()
    const late = seen.events('TurnCaptured').filter((turn) => turn.at > moved!.at + 1000)
    deepEqual(
      late.filter((turn) => turn.version !== 0),
      [],
    )
  })

  test('turns during a freeze wait, and after the thaw become a child of version 0', async () => {
    const sealed = seen.chain.batches.length
    talks.push(...(await sessions(pipeline.client, talks.length, BATCH)))
    await seen.learned()
    ok(seen.usable().length >= BATCH)
    equal(seen.chain.batches.length, sealed)
    const newest = Math.max(...seen.line.versions.keys())
    deepEqual(await done(where, 'thaw'), { head: 0, version: 0, frozen: false })
    const batch = await seen.until('a batch', () => seen.chain.batches[sealed])
    const thawed = await seen.until('the thaw', () => seen.events('LearningFrozen')[0])
    equal(thawed.on, false)
    ok(batch.sealed.at >= thawed.at, 'nothing was sealed before the thaw')
    equal(batch.sealed.parent.version, 0)
    ok(batch.sealed.items.every((item) => item.version === 0))
    await seen.learned()
    const next = seen.line.head === 0 ? await teach(newest) : seen.line.head
    equal(next, newest + 1, 'numbers go on')
    equal(seen.line.versions.get(next)!.parent, 0)
    await serves(pipeline, next)
    equal((await ask(pipeline.client, [{ role: 'user', content: question(4) }])).version, next)
    equal(new Set([...seen.line.versions.values()].map(({ adapter }) => adapter)).size, seen.line.versions.size)
  })

  test('verify computes every batch again bit for bit while the pipeline runs', async () => {
    const verified = await done<Verified>(where, 'verify', 'all')
    equal(verified.ok, true)
    equal(verified.batches.length, seen.chain.batches.length)
    deepEqual(
      verified.batches.map(({ mode, ok: holds }) => [mode, holds]),
      seen.chain.batches.map((batch) => [batch.update ? 'recompute' : 'no_update', true]),
    )
  })

  test('a replay with the same settings gives the same weights on a branch, and the head stays', async () => {
    const head = seen.line.head
    const replayed = await done<Replayed>(where, 'replay', '--branch', 'again')
    const updates = seen.chain.batches.filter((batch) => batch.update !== null)
    deepEqual([replayed.equal, replayed.batches], [true, updates.length])
    await seen.caughtUp()
    const { line, chain } = seen.branch('again')
    equal(line.started?.mode, 'replay')
    deepEqual(
      chain.batches.map((batch) => batch.update?.event.adapter),
      updates.map((batch) => batch.update?.event.adapter),
    )
    deepEqual(
      chain.batches.map(({ sealed: { parent } }) => [parent.adapter, parent.state]),
      updates.map(({ sealed: { parent } }) => [parent.adapter, parent.state]),
      'from the same parents, across the rollback',
    )
    deepEqual(
      chain.batches.map(({ sealed: { parent } }) => line.versions.get(parent.version)?.adapter),
      updates.map(({ sealed: { parent } }) => parent.adapter),
    )
    equal(seen.line.head, head)
    const again = await instar(where, 'replay', '--branch', 'again', '--json')
    deepEqual([again.code, (again.json as { error: { code: string } }).error.code], [1, 'branch_exists'])
  })

  test('a promotion passes the gate, and its result is on the log', async () => {
    const before = seen.line.head
    const newest = Math.max(...seen.line.versions.keys())
    const { line } = seen.branch('again')
    const source = Math.max(...line.versions.keys())
    const said = await instar(where, 'promote', 'again', '--json')
    const reply = said.json as { accepted: boolean; version: number; head: number; reason?: string }
    await seen.caughtUp()
    if (reply.accepted) {
      equal(said.code, 0)
      deepEqual([reply.version, reply.head], [newest + 1, newest + 1])
      const published = seen.events('VersionPublished').findLast((event) => event.policy === 'policy')!
      deepEqual(
        [published.number, published.parent, published.why, { ...published.source }],
        [newest + 1, before, 'promotion', { policy: 'policy~again', version: source }],
      )
      equal(published.adapter, line.versions.get(source)!.adapter)
      equal((await ask(pipeline.client, [{ role: 'user', content: question(6) }])).version, newest + 1)
    } else {
      equal(said.code, 1)
      equal(reply.head, before)
      equal(seen.line.rejected.at(-1)?.event.reason, reply.reason)
      notEqual(reply.reason, undefined)
    }
    const unknown = await instar(where, 'promote', 'nobody', '--json')
    deepEqual([unknown.code, (unknown.json as { error: { code: string } }).error.code], [1, 'unknown_branch'])
  })

  test('a replay with another learning rate reports no equality', async () => {
    const replayed = await done<Replayed>(where, 'replay', '--branch', 'other', '--set', 'lr=0.001')
    equal(replayed.equal, null)
    ok(replayed.batches >= 1)
    await seen.caughtUp()
    const { chain } = seen.branch('other')
    equal(chain.batches[0]!.sealed.settings['learningRate'], 0.001)
    notEqual(chain.batches[0]!.update?.event.adapter, seen.chain.batches[0]!.update?.event.adapter)
  })

  test('SIGTERM gives exit code 0, and a restart continues with the same versions and conversations', async () => {
    const { head } = seen.line
    const versions = await done<Listed[]>(where, 'versions')
    const turns = seen.turns.turns.size
    const scores = seen.scores.turns.size
    equal(await pipeline.stop(), 0)
    await untilNothingLeft(data)
    pipeline = await up(data)
    where = { data, url: pipeline.ready.url }
    deepEqual([pipeline.ready.version, pipeline.ready.frozen], [head, false])
    deepEqual(await done<Listed[]>(where, 'versions'), versions)
    const { second, messages } = talks.at(-1)!
    const answer = await ask(pipeline.client, [
      ...messages,
      { role: 'user', content: 'Thanks, that is just how I like it.' },
    ])
    deepEqual([answer.session, answer.version], [second.session, head])
    await seen.until(
      'the answer from before the restart to be scored',
      () => seen.scores.turns.get(second.turn)?.reward === 1,
    )
    deepEqual([seen.turns.turns.size, seen.scores.turns.size], [turns + 1, scores + 1])
  })

  test('learning continues from the promoted version, and verify computes all of it again', async () => {
    const { head } = seen.line
    const next = await teach(Math.max(...seen.line.versions.keys()))
    const parent = seen.line.versions.get(next)!.parent
    ok(parent !== null && parent >= head)
    const verified = await done<Verified>(where, 'verify', 'all')
    deepEqual(
      verified.batches.filter(({ mode, ok: holds }) => mode === 'digests' || !holds),
      [],
    )
    deepEqual(
      [...new Set(verified.batches.map(({ version }) => version))]
        .filter((version) => version !== null)
        .toSorted((a, b) => a - b),
      [...seen.line.versions.keys()].filter((version) => version > 0),
    )
    deepEqual(seen.ignored, [])
    deepEqual(seen.events('TurnAborted'), [])
  })

  test('a replay from a checkpoint gives the weights of one from the start, in the pipeline and beside none', async () => {
    equal(await pipeline.stop(), 0)
    await untilNothingLeft(data)
    await done(where, 'checkpoint', 'audit')
    pipeline = await up(data)
    where = { data, url: pipeline.ready.url }
    const whole = await done<Replayed>(where, 'replay', '--branch', 'whole')
    const inside = await done<Replayed>(where, 'replay', '--branch', 'inside', '--from-checkpoint')
    equal(await pipeline.stop(), 0)
    await untilNothingLeft(data)
    const alone = await done<Replayed>(where, 'replay', '--branch', 'alone', '--from-checkpoint')
    const figures = ({ equal: same, batches, versions, adapter }: Replayed) => [same, batches, versions, adapter]
    ok(whole.equal && whole.trusted === null)
    for (const one of [inside, alone]) {
      deepEqual(figures(one), figures(whole))
      equal(one.trusted?.batches, whole.batches)
    }
  })
})
