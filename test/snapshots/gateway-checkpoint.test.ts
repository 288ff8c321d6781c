/** A gateway that starts from a checkpoint makes of its sessions what a checkpoint lacks: the recent ones and the names. */
import { encodeEvent, schemaTexts, type TurnCaptured } from '@instar/events'
import { openEmbeddedLog, openMemoryLog, openSnapshots, writeCheckpoint, type EventLog } from '@instar/log'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { answerName, promptName, type NameLimits } from '../../services/gateway/src/session/core/held-names.ts'
import { nameFor, turnsNamed } from '../../services/gateway/src/session/core/names.ts'
import { openLevelRows } from '../../services/gateway/src/session/level-rows.ts'
import { openSnapshot, type GatewaySnapshot } from '../../services/gateway/src/session/snapshot.ts'
import { gatewayFold } from '../../services/gateway/src/session/stored-fold.ts'
import { POLICY, randomHistory } from '../kit/histories.ts'
import { T0, turn } from '../kit/projected-history.ts'
import { seeded } from '../kit/random.ts'
import { gatewayView, liveGateway } from './gateway.ts'

const folders: string[] = []
after(() => folders.forEach((path) => rmSync(path, { recursive: true, force: true })))
const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-gateway-checkpoint-'))
  folders.push(path)
  return path
}
const write = (log: EventLog, files: string) =>
  writeCheckpoint(log, gatewayFold, {
    policy: POLICY,
    folder: files,
    now: () => 1,
    observer: { onProgress: () => undefined },
    signal: new AbortController().signal,
  })

const LIMITS = { sessions: 12, turns: 600 }
const ENDLESS: NameLimits = { ms: 1e15, bytes: 1e9 }
type Options = { checkpoints?: string; names?: NameLimits; lines?: string[]; now?: number }

const opened = (place: string, { checkpoints, names = ENDLESS, lines = [], now = 0 }: Options): GatewaySnapshot =>
  openSnapshot(
    openSnapshots(place, {
      records: 50,
      ms: Infinity,
      cacheWeight: 10,
      logLine: (line) => void lines.push(line),
      ...(checkpoints ? { checkpoints } : {}),
    }),
    POLICY,
    LIMITS,
    { limits: names, now: () => now, open: (path) => openLevelRows(path, assert.fail) },
  )

test('it finds the sessions of requests as a gateway does that has read the whole log', async () => {
  for (const seed of [21, 22]) {
    const history = randomHistory(seeded(seed), 3000)
    // One partition, so that what is behind the checkpoint is read in the order of a start from the log's.
    const log = openMemoryLog({ partitions: { turns: 1 } })
    await log.append(history.events.slice(0, 2000).map((event) => encodeEvent(event)))
    const files = folder()
    const { positions } = (await write(log, files))!
    await log.append(history.events.slice(2000).map((event) => encodeEvent(event)))
    const names = history.events.flatMap((event) =>
      event.type === 'TurnCaptured'
        ? [answerName(nameFor(event.key, event.answer.loose)), promptName(nameFor(event.key, event.digest))]
        : [],
    )
    const seenBy = async (place: string, options: Options) => {
      const snapshot = opened(place, options)
      let read = 0
      const counted: GatewaySnapshot = {
        ...snapshot,
        after: (logged) => ((read += logged.topic === 'turns' ? 1 : 0), snapshot.after(logged)),
      }
      return liveGateway(
        log,
        null,
        LIMITS,
        {},
        async (gateway) => {
          // Of those that wait, all are found; of the rows the latest.
          await snapshot.names!.write()
          return {
            read,
            recent: [...snapshot.index.recent.keys()],
            found: await Promise.all([...new Set(names)].map((name) => snapshot.names!.find([name]))),
            held: snapshot.names!.figures().held,
            view: await gatewayView({ ...gateway, snapshot }, history),
          }
        },
        counted,
      )
    }
    const whole = await seenBy(folder(), {})
    const [place, lines]: [string, string[]] = [folder(), []]
    const started = await seenBy(place, { checkpoints: files, lines })
    assert.deepEqual(lines, ['gateway.policy.turns: starts from the checkpoint of 1970-01-01T00:00:00.001Z'])
    const behind = positions.reduce((sum, { next }) => sum + next, 0)
    assert.ok(behind > 500 && started.read < whole.read, `${started.read} of ${whole.read}`)
    assert.ok(whole.held > 500 && whole.recent.length > 2, `${whole.held} names, ${whole.recent.length} sessions`)
    assert.deepEqual({ ...started, read: 0 }, { ...whole, read: 0 }, `seed ${seed}`)
    // Its own snapshot, with what was made, is used from then on.
    const again = await seenBy(place, { checkpoints: files, lines })
    assert.deepEqual([again.read, again.held, again.found, lines.length], [0, whole.held, whole.found, 1])
    assert.deepEqual(
      readdirSync(place).filter((name) => /checkpoint|filling/.test(name)),
      [],
    )
  }
})

test('the log says once why a damaged snapshot is not used, and where the gateway begins instead', async () => {
  const begins = async (log: EventLog, place: string, checkpoints: string): Promise<string[]> => {
    const lines: string[] = []
    const snapshot = opened(place, { checkpoints, lines })
    await liveGateway(log, null, LIMITS, {}, async () => undefined, snapshot)
    return lines
  }
  const name = 'gateway.policy.turns'
  const file = (place: string): string => join(place, `${name}.db`)
  const damages: [harm: (place: string) => void, why: string][] = [
    [(place) => truncateSync(file(place), 8192), 'database disk image is malformed'],
    [(place) => rmSync(`${file(place)}.names`, { recursive: true }), 'the table of names beside it is another one'],
  ]
  for (const [harm, why] of damages) {
    const [log, place, files] = [openMemoryLog(), folder(), folder()]
    await log.append(randomHistory(seeded(23), 600).events.map((event) => encodeEvent(event)))
    assert.deepEqual(await begins(log, place, files), [])
    harm(place)
    assert.deepEqual(await begins(log, place, files), [
      `${name}: the snapshot is not used (${why}); the log is read from its start`,
    ])
    await write(log, files)
    harm(place)
    assert.deepEqual(await begins(log, place, files), [
      `${name}: the snapshot is not used (${why})`,
      `${name}: starts from the checkpoint of 1970-01-01T00:00:00.001Z`,
    ])
  }
})

const session = (i: number): string => i.toString(16).padStart(32, '0')
const turns = (count: number): TurnCaptured[] =>
  Array.from({ length: count }, (_, i) =>
    turn({ session: session(i >> 1), name: `n${i}`, says: `Answer ${i}.`, at: T0 + 1000 * i }),
  )
const nameOf = ({ answer }: TurnCaptured): string => answerName(nameFor(null, answer.loose))

test('of the names those of the latest turns are held, within the bytes and the days of the setting', async () => {
  const log = openMemoryLog()
  const all = turns(4000)
  await log.append(all.map((event) => encodeEvent(event)))
  const files = folder()
  await write(log, files)
  for (const names of [
    { ms: 1e15, bytes: 100_000 },
    { ms: 1_000_000, bytes: 1e9 },
  ]) {
    const now = T0 + 1000 * all.length
    const snapshot = opened(folder(), { checkpoints: files, names, now })
    await liveGateway(
      log,
      null,
      LIMITS,
      {},
      async () => {
        const { held, bytes, expired } = snapshot.names!.figures()
        assert.equal(held + expired, 2 * all.length)
        assert.ok(bytes <= names.bytes && held > 1400 && held < 3000, `${held} names, ${bytes} bytes`)
        const first = all.length - held / 2
        // Rows that are held are found for the days of the setting.
        for (const i of [Math.max(first + 300, all.length - 900), all.length - 1])
          assert.deepEqual(await snapshot.names!.find([nameOf(all[i]!)]), [session(i >> 1)], `${i}`)
        for (const i of [0, first - 300]) assert.deepEqual(await snapshot.names!.find([nameOf(all[i]!)]), [], `${i}`)
        const { recent } = snapshot.index
        assert.ok(recent.size <= LIMITS.sessions)
        assert.equal([...recent.keys()].at(-1), session((all.length - 1) >> 1))
      },
      snapshot,
    )
  }
})

test('without names on the disk the sessions of the latest turns are found, as many as memory holds', async () => {
  const log = openMemoryLog()
  const all = turns(200)
  await log.append(all.map((event) => encodeEvent(event)))
  const files = folder()
  await write(log, files)
  const snapshot = opened(folder(), { checkpoints: files, names: { ms: 0, bytes: 0 } })
  const found = await liveGateway(
    log,
    null,
    LIMITS,
    {},
    async () =>
      all.filter(({ answer }) => turnsNamed(snapshot.index.byLoose, nameFor(null, answer.loose)).length > 0).length,
    snapshot,
  )
  assert.deepEqual([found, snapshot.names!.figures().held], [2 * LIMITS.sessions, 0])
  assert.deepEqual(
    [...snapshot.index.recent.keys()],
    Array.from({ length: LIMITS.sessions }, (_, i) => session(100 - LIMITS.sessions + i)),
  )
})

test('a gateway that is killed repeatedly while it makes the names has them all afterwards', async (t) => {
  const [place, files, snapshots] = [folder(), folder(), folder()]
  const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
  const COUNT = 6_000
  const all = turns(COUNT)
  for (let i = 0; i < COUNT; i += 1000) await log.append(all.slice(i, i + 1000).map((event) => encodeEvent(event)))
  await write(log, files)
  await log.close()
  const program = fileURLToPath(new URL('processes/names.ts', import.meta.url))
  const random = seeded(24)
  /** Its lines. `at`: it is killed so many ms at most after that line. */
  const life = async (at: { line: string; most: number } | null): Promise<string[]> => {
    const child = spawn(process.execPath, [program, place, snapshots, String(COUNT), files], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exited = once(child, 'exit')
    const lines: string[] = []
    for await (const line of createInterface({ input: child.stdout })) {
      lines.push(line)
      if (line === at?.line && at.most === 0) child.kill('SIGKILL')
      else if (line === at?.line) setTimeout(() => child.kill('SIGKILL'), random.below(at.most))
      if (line === 'through') child.kill('SIGKILL')
    }
    await exited
    return lines
  }
  let killed = 0
  // After the first of two writes of names, and anywhere.
  for (const at of [
    { line: 'names', most: 0 },
    { line: 'opens', most: 400 },
    { line: 'names', most: 100 },
  ])
    if (!(await life(at)).includes('through')) killed += 1
  t.diagnostic(`${killed} killed before the end`)
  assert.ok(killed >= 1, `${killed}`)
  assert.deepEqual((await life(null)).slice(-2), [`found ${COUNT}`, 'through'])
  assert.deepEqual(await life(null), ['opens', `found ${COUNT}`, 'through'])
})
