/**
 * Continuations that the gateway recognises after other traffic of a minute, an hour and a day at 1,000 turns/s, on a
 * simulated clock and without HTTP: conversations without a name whose answer nobody else gave, named ones, and ids of ours.
 * The gateway's state, its snapshot and the names on its disk are the real ones. Of the traffic the last FOLDED turns before
 * the continuations are folded, which is more than memory holds; those before them only add their names, SPARSE of a day's
 * at most, spread over its time.
 */
import { mintId, type Message } from '@instar/dialects'
import { decodeRecord, encodeEvent, type Event, type Logged, type TurnCaptured, type TurnsEvent } from '@instar/events'
import { openMemoryLog, openSnapshots, type TurnReader } from '@instar/log'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Paced } from '../services/gateway/src/session/paced.ts'
import { turnOfId } from '../services/gateway/src/session/references.ts'
import { resolveSession } from '../services/gateway/src/session/sessions.ts'
import { answersOf } from '../services/gateway/src/session/core/resolve.ts'
import { evolveIndex } from '../services/gateway/src/session/core/session-index.ts'
import type { SessionQuery } from '../services/gateway/src/session/core/session-query.ts'
import { openLevelRows } from '../services/gateway/src/session/level-rows.ts'
import { openSnapshot } from '../services/gateway/src/session/snapshot.ts'
import type { Tail } from '../services/gateway/src/session/tail.ts'
import { sha, T0, turn } from '../test/kit/projected-history.ts'
import { machine, median, quantile, rounded } from './machine.ts'

type Row = {
  after: string
  held: boolean
  otherTurns: number
  folded: number
  namesHeld: number
  unnamed: number
  named: number
  minted: number
  lookupMs: number
  lookupMsP99: number
  foldUs: number
  nameUs: number
  cpuUs: number
  memoryMiB: number
  diskMiB: number
}
export type Report = { name: string; machine: string; rows: Row[] }

/** The limits of a gateway's memory and of its names on the disk. */
const LIMITS = { sessions: 20_000, turns: 200_000 }
const HELD = { ms: 7 * 86_400_000, bytes: 16 * 1024 ** 3 }
const PER_SECOND = 1_000
/** Turns of one conversation of the other traffic. */
const TURNS_EACH = 4
const CONVERSATIONS = 400
const FOLDED = 300_000
const SPARSE = 3_300_000
/** Turns between two snapshots. */
const BETWEEN = 5_000
const LAGS = [
  ['1 minute', 60],
  ['1 hour', 3_600],
  ['1 day', 86_400],
] as const
const NO_TAIL: Pick<Tail, 'turnsWithin'> = { turnsWithin: async () => true }

const PROGRAM = fileURLToPath(import.meta.url)

const hex = (name: string): string => sha(name).slice(0, 32)

/** The first turn of a conversation that is continued later. */
const opening = (name: string, at: number): TurnCaptured =>
  turn({ session: hex(`session ${name}`), name, says: `The answer to ${name} is ${sha(name)}.`, at })

const sizeOf = async (folder: string): Promise<number> => {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  const sizes = await Promise.all(files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size))
  return sizes.reduce((sum, size) => sum + size, 0) / 2 ** 20
}

/** `isHeld`: with names on the disk. */
type Sizes = { after: string; seconds: number; isHeld: boolean; probes: number; folded: number; sparse: number }

const measure = async ({ after, seconds, isHeld, probes, folded, sparse }: Sizes): Promise<Row> => {
  const logLine = (line: string): void => void process.stderr.write(`${line}\n`)
  const folder = await mkdtemp(join(tmpdir(), 'instar-bench-'))
  const snapshot = openSnapshot(openSnapshots(folder), 'policy', LIMITS, {
    limits: isHeld ? HELD : { ms: 0, bytes: 0 },
    now: () => T0 + seconds * 1_000,
    open: (path) => openLevelRows(path, logLine),
    logLine,
  })
  const { index } = snapshot
  const log = openMemoryLog()
  await snapshot.open(log)
  let offset = 0
  const fold = async (event: Event): Promise<void> => {
    const logged = decodeRecord({ ...encodeEvent(event), partition: 0, offset }) as Logged<TurnsEvent>
    offset += 1
    const before = performance.now()
    evolveIndex(index, logged)
    const saving = snapshot.after(logged)
    if (saving) await saving
    spent += performance.now() - before
  }
  let spent = 0
  try {
    const openings = Array.from({ length: probes }, (_, i) => opening(`${after} ${i}`, T0 + i))
    for (const event of openings) await fold(event)
    const others = seconds * PER_SECOND
    const first = Math.max(0, others - folded)
    const names = snapshot.names!
    const added = isHeld ? Math.min(first, sparse) : 0
    const began = performance.now()
    for (let i = 0; i < added; i += 1) {
      const at = T0 + probes + Math.floor((i * first) / added)
      names.add([`answer ${sha(`a${i}`)}`, `prompt ${sha(`p${i}`)}`], at, hex(`names ${i >> 2}`), 'names')
      if (i % BETWEEN === BETWEEN - 1) await names.write()
    }
    await names.write()
    const nameUs = (1000 * (performance.now() - began)) / Math.max(1, added)
    const last: (string | null)[] = Array.from({ length: CONVERSATIONS }, () => null)
    spent = 0
    const cpu = process.cpuUsage()
    for (let i = first; i < others; i += 1) {
      const place = i % CONVERSATIONS
      const nth = Math.floor(i / CONVERSATIONS)
      if (nth % TURNS_EACH === 0) last[place] = null
      const says = `This is answer ${i}, in a sentence of usual length.`
      const to = last[place]
      const session = hex(`other ${place} ${Math.floor(nth / TURNS_EACH)}`)
      await fold(turn({ session, name: `o${i}`, says, at: T0 + probes + i, ...(to ? { to } : {}) }))
      last[place] = says
    }
    const { user, system } = process.cpuUsage(cpu)
    const cpuUs = (user + system) / Math.max(1, others - first)
    const foldUs = (1000 * spent) / Math.max(1, others - first)

    const byTurn = new Map(openings.map((event) => [event.turn, event]))
    const reader = {
      record: async (id: string) => byTurn.get(id)!,
      body: async (id: string) => byTurn.get(id)!.body.written!.bytes,
    } as unknown as TurnReader
    const tail = { ...NO_TAIL, ready: (session: string) => snapshot.load(session) } as Tail
    const ports = {
      index,
      reader,
      tail,
      tailWaitMs: 1000,
      readings: new Paced(() => performance.now()),
    }
    const asking = { key: null, hold: () => undefined }
    const lookups: number[] = []
    const share = async (from: number, is: (event: TurnCaptured, n: number) => Promise<boolean>): Promise<number> => {
      let found = 0
      const asked = openings.filter((_, n) => n % 3 === from)
      for (const [n, event] of asked.entries()) {
        const began = performance.now()
        if (await is(event, n)) found += 1
        lookups.push(performance.now() - began)
      }
      return found / asked.length
    }
    const continues = async (event: TurnCaptured, label: SessionQuery['label'], n: number): Promise<boolean> => {
      const request = JSON.parse(Buffer.from(event.body.written!.bytes).toString()) as { messages: Message[] }
      const content = Buffer.from(event.text.bytes).toString()
      const messages = [...request.messages, { role: 'assistant', content }, { role: 'user', content: 'And then?' }]
      const asked: SessionQuery = {
        key: null,
        label,
        messages: messages as Message[],
        answers: answersOf(messages as Message[]),
        digest: sha(`continuation ${n}`),
        before: event.digest,
        subject: null,
      }
      const { follows } = await resolveSession(ports, asked, hex(`fresh ${n}`), asking)
      return follows?.turn === event.turn
    }
    const unnamed = await share(0, (event, n) => continues(event, null, n))
    const unnamedLookups = lookups.splice(0)
    const named = await share(1, (event, n) => continues(event, { source: 'header', value: event.session }, n))
    const minted = await share(
      2,
      async (event) => (await turnOfId(ports, null, mintId('resp', event.session, event.turn)))?.turn === event.turn,
    )
    return {
      after,
      held: isHeld,
      otherTurns: others,
      folded: others - first,
      namesHeld: names.figures().held,
      unnamed,
      named,
      minted,
      lookupMs: rounded(median(unnamedLookups)),
      lookupMsP99: rounded(quantile(unnamedLookups, 0.99)),
      foldUs: rounded(foldUs),
      nameUs: rounded(nameUs),
      cpuUs: rounded(cpuUs),
      memoryMiB: Math.round(process.memoryUsage().rss / 2 ** 20),
      diskMiB: Math.round(await sizeOf(folder)),
    }
  } finally {
    await snapshot.close({ save: false })
    await rm(folder, { recursive: true })
  }
}

export const bench = async ({
  quick,
  all = false,
  logLine,
}: {
  quick: boolean
  /** The names of each turn of the day: 8 GB of disk. */
  all?: boolean
  logLine: (line: string) => void
}): Promise<Report> => {
  const rows: Row[] = []
  const probes = quick ? 300 : 3_000
  const folded = quick ? FOLDED / 3 : FOLDED
  const sparse = all ? 1e9 : quick ? SPARSE / 4 : SPARSE
  for (const isHeld of [false, true])
    for (const [after, seconds] of LAGS) {
      const sizes: Sizes = { after, seconds, isHeld, probes, folded, sparse }
      const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, JSON.stringify(sizes)])
      rows.push(JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Row)
      logLine(JSON.stringify(rows.at(-1)))
    }
  return { name: 'recall', machine: machine(), rows }
}

/** Each row is a process of its own, for its memory. */
if (process.argv[1] === PROGRAM)
  process.stdout.write(`${JSON.stringify(await measure(JSON.parse(process.argv[2]!) as Sizes))}\n`)
