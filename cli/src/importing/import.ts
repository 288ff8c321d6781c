/**
 * Files of recorded conversations onto the log. They are read twice: once for what there is in them and how it
 * belongs together, then session by session, in the order in which things were said. Ids come from the content, so
 * that what is on the log is not written again.
 */
import {
  encodeEvent,
  InstarError,
  isBase,
  NEWEST,
  type Encoded,
  type SessionClosed,
  type Versions,
} from '@instar/events'
import {
  holdsIds,
  newSessionSoFar,
  readLine,
  turnsOf,
  type Line as KnownLine,
  type Reading,
  type ImportedRequest,
} from '@instar/gateway/imported'
import { parseJson } from '@instar/dialects'
import { blobChunks, persist, versionsOn, type EventLog } from '@instar/log'
import type { FileHandle } from 'node:fs/promises'
import { linesOf, openFile, readAgain, type Line } from './lines.ts'
import type { Known } from './known.ts'

type Skipped = { file: string; line: number; reason: string }
export type ImportReport = {
  lines: number
  sessions: number
  /** New turns. */
  turns: number
  exact: number
  trainable: number
  feedback: number
  /** Turns that were on the log before. */
  there: number
  /** Turns that the files tell of more than once. */
  repeated: number
  /** New turns that nothing is learned from, by why. */
  not_trainable: Record<string, number>
  skipped: Skipped[]
}

export type Progress = { phase: 'reading' | 'writing'; share: number; what: string }

type ImportPorts = {
  /** Null: nothing is written. */
  log: EventLog | null
  /** What the log holds of these sessions, and of the line of versions. */
  known: (sessions: ReadonlySet<string>) => Promise<Known>
  /** The tokenizer, once ids are met; the vocabulary that goes with it. */
  model: () => Promise<{
    decode: (ids: readonly number[]) => string
    vocabulary: number
    sha256: string
    sha256Named?(name: string): string
  } | null>
  now: () => number
  onProgress: (progress: Progress) => void
  signal: AbortSignal
}

type ImportOptions = Pick<Reading, 'policy' | 'key' | 'ownVersions' | 'unsampled' | 'rewards'>

type Entry = { file: number; line: Omit<Line, 'bytes'>; part: number; at: number | null; place: number | null }

/** Records of one append; of a long session. */
const BATCH = 256
const LONG = 1024
const BATCH_BYTES = 4 << 20

export const importFiles = async (
  paths: readonly string[],
  ports: ImportPorts,
  options: ImportOptions,
): Promise<ImportReport> => {
  const report: ImportReport = {
    lines: 0,
    sessions: 0,
    turns: 0,
    exact: 0,
    trainable: 0,
    feedback: 0,
    there: 0,
    repeated: 0,
    not_trainable: {},
    skipped: [],
  }
  const files = await openAll(paths)
  try {
    const reading: Reading = { ...options, decode: null }
    const sessions = await survey(paths, files, ports, reading, report)
    report.sessions = sessions.size
    const known = await ports.known(new Set(sessions.keys()))
    const model = reading.decode === null ? null : await ports.model()
    // Ids of another checkpoint say nothing here, whatever their numbers are.
    const vocabulary = model && (known.base === null || isBase(known.base, model)) ? model.vocabulary : null
    await write(files, sessions, known, { versions: known.versions, vocabulary }, reading, ports, report)
    return report
  } finally {
    await Promise.all(files.map((file) => file.close()))
  }
}

const openAll = async (paths: readonly string[]): Promise<FileHandle[]> => {
  const files: FileHandle[] = []
  try {
    for (const path of paths) files.push(await openFile(path))
    return files
  } catch (error) {
    await Promise.all(files.map((file) => file.close()))
    throw error
  }
}

/** Every line once: the sessions with their turns in order, and which lines cannot be read. */
const survey = async (
  paths: readonly string[],
  files: readonly FileHandle[],
  ports: ImportPorts,
  reading: Reading,
  report: ImportReport,
): Promise<Map<string, Entry[]>> => {
  const sessions = new Map<string, Entry[]>()
  const sizes = await Promise.all(files.map(async (file) => (await file.stat()).size))
  const whole = Math.max(
    1,
    sizes.reduce((sum, size) => sum + size, 0),
  )
  let before = 0
  for (const [file, handle] of files.entries()) {
    for await (const { bytes, ...line } of linesOf(handle)) {
      ports.signal.throwIfAborted()
      report.lines += 1
      ports.onProgress({
        phase: 'reading',
        share: (before + line.from + line.length) / whole,
        what: `${report.lines} lines`,
      })
      try {
        if (reading.decode === null && holdsIds(bytes)) reading.decode = (await ports.model())?.decode ?? null
        for (const [part, { spoken, place }] of readBytes(bytes, reading).entries()) {
          notInTheFuture(spoken, ports.now())
          const entry: Entry = { file, line, part, at: spoken.times.at, place }
          const entries = sessions.get(spoken.session)
          if (entries) entries.push(entry)
          else sessions.set(spoken.session, [entry])
        }
      } catch (error) {
        if (!(error instanceof InstarError) || error.code === 'internal') throw error
        report.skipped.push({ file: paths[file]!, line: line.number, reason: error.message })
      }
    }
    before += sizes[file]!
  }
  return new Map([...sessions].map(([session, entries]) => [session, inOrder(entries)]))
}

const readBytes = (bytes: Buffer, reading: Reading): ReturnType<typeof readLine> => {
  try {
    return readLine(parseJson(bytes), reading)
  } catch (error) {
    if (error instanceof InstarError && error.message.startsWith('The request body'))
      throw new InstarError('bad_request', 'The line is not a JSON object in UTF-8.', {}, { cause: error })
    throw error
  }
}

const DAY_MS = 24 * 3600 * 1000

/** A session whose last word is in the future would never go quiet. */
const notInTheFuture = ({ times }: ImportedRequest, now: number): void => {
  if ([times.at, times.finishedAt, times.firstTokenAt].some((time) => time !== null && time > now + DAY_MS))
    throw new InstarError('bad_request', 'It says that it was said in the future.')
}

/**
 * By the places in their trajectory, else by when they were said, where all say so, else as they stand in the files.
 */
const inOrder = (entries: readonly Entry[]): Entry[] => {
  if (entries.every(({ place }) => place !== null)) return entries.toSorted((a, b) => a.place! - b.place!)
  return entries.every(({ at }) => at !== null) ? entries.toSorted((a, b) => a.at! - b.at!) : [...entries]
}

const write = async (
  files: readonly FileHandle[],
  sessions: ReadonlyMap<string, Entry[]>,
  known: Known,
  line: KnownLine,
  reading: Reading,
  ports: ImportPorts,
  report: ImportReport,
): Promise<void> => {
  const append = appender(ports)
  const seen = new Set<string>()
  const all = [...sessions.values()].reduce((sum, entries) => sum + entries.length, 0)
  let done = 0
  let last: { key: string; parts: ReturnType<typeof readLine> } | null = null
  const partOf = async ({ file, line: place, part }: Entry): Promise<ImportedRequest> => {
    const key = `${file} ${place.number}`
    if (last?.key !== key) last = { key, parts: readBytes(await readAgain(files[file]!, place), reading) }
    return last.parts[part]!.spoken
  }
  for (const entries of sessions.values()) {
    const so = newSessionSoFar()
    const fresh: string[] = []
    let closing: SessionClosed | null = null
    for (const entry of entries) {
      ports.signal.throwIfAborted()
      const spoken = await partOf(entry)
      const { made, blob } = turnsOf(
        spoken,
        so,
        line,
        reading,
        (turn) => known.turns.has(turn) || seen.has(turn),
        ports.now(),
      )
      const wanted = made.filter(({ turn }) => isNew(turn.turn, known, seen, report))
      if (blob && wanted[0]) {
        for (const chunk of blobChunks(blob.bytes, blob.sha256, wanted[0].turn.at, append.versions))
          await append.add(chunk)
        await append.end()
      }
      for (const { turn } of wanted) {
        fresh.push(turn.turn)
        count(report, turn)
        await append.add(encodeEvent(turn, append.versions))
      }
      for (const feedback of made.flatMap((one) => one.feedback)) {
        if (known.feedback.has(feedback.id) || seen.has(feedback.id)) continue
        seen.add(feedback.id)
        report.feedback += 1
        await append.add(encodeEvent(feedback, append.versions))
      }
      if (spoken.last && made[0])
        closing = {
          type: 'SessionClosed',
          session: spoken.session,
          open: [],
          why: 'client',
          at: made[0].turn.finishedAt,
        }
      done += 1
      ports.onProgress({ phase: 'writing', share: done / all, what: `${report.turns} turns` })
    }
    if (closing && fresh.length > 0) await append.add(encodeEvent({ ...closing, open: fresh }, append.versions))
    await append.settle()
  }
  await append.end()
}

const isNew = (turn: string, known: Known, seen: Set<string>, report: ImportReport): boolean => {
  if (seen.has(turn)) {
    report.repeated += 1
    return false
  }
  seen.add(turn)
  if (!known.turns.has(turn)) return true
  report.there += 1
  return false
}

const count = (report: ImportReport, turn: { tokens: string; trainable: boolean; reason: string | null }): void => {
  report.turns += 1
  if (turn.tokens === 'exact') report.exact += 1
  if (turn.trainable) report.trainable += 1
  if (turn.reason !== null) report.not_trainable[turn.reason] = (report.not_trainable[turn.reason] ?? 0) + 1
}

type Appender = {
  versions: Versions
  add(record: Encoded): Promise<void>
  /** A session is whole. */ settle(): Promise<void>
  end(): Promise<void>
}

/** Gathers records into appends, sessions whole where they are not long: nobody closes one of which half was read. */
const appender = ({ log, signal }: ImportPorts): Appender => {
  let waiting: Encoded[] = []
  let bytes = 0
  const end = async (): Promise<void> => {
    if (log && waiting.length > 0) await persist(log, waiting, signal)
    waiting = []
    bytes = 0
  }
  return {
    versions: log ? versionsOn(log) : NEWEST,
    end,
    async add(record) {
      waiting.push(record)
      bytes += record.payload.length
      if (waiting.length >= LONG || bytes >= BATCH_BYTES) await end()
    },
    async settle() {
      if (waiting.length >= BATCH) await end()
    },
  }
}
