/** The second pass of an import: builds the records of each session and appends those that the log lacks. */
import { encodeEvent, InstarError, isReadable, type Versions } from '@instar/events'
import {
  newSessionSoFar,
  turnsOf,
  type ImportedRequest,
  type Line as VersionLine,
  type Reading,
} from '@instar/gateway/imported'
import { blobChunks } from '@instar/log'
import { createAppender } from './appender.ts'
import { createEndings } from './endings.ts'
import type { ExistingRecords } from './existing.ts'
import { readLineAt } from './jsonl.ts'
import { createNewRecords } from './new-records.ts'
import type { ImportPorts } from './ports.ts'
import { countTurn, type ImportReport } from './report.ts'
import { parseLine, type LineRequest, type RequestEntry } from './requests.ts'
import type { ImportFile } from './scan.ts'

type Write = {
  files: readonly ImportFile[]
  /** Session → its requests in order. */
  sessions: ReadonlyMap<string, readonly RequestEntry[]>
  existing: ExistingRecords
  /** The versions of the policy, and the vocabulary of its base. */
  line: VersionLine
  reading: Reading
  ports: Pick<ImportPorts, 'log' | 'now' | 'onProgress' | 'signal'>
  /** Turns and feedback are counted in it. */
  report: ImportReport
}

/**
 * Rejects with the reason of `ports.signal`; the sessions that were appended before stay on the log. Throws
 * `not_announced`.
 */
export const writeSessions = async ({
  files,
  sessions,
  existing,
  line,
  reading,
  ports,
  report,
}: Write): Promise<void> => {
  const appender = createAppender(ports.log, ports.signal)
  const { versions } = appender
  requireEpisodes(sessions, versions)
  const newRecords = createNewRecords(existing, report)
  const requestAt = createRequestReader(files, reading)
  const total = [...sessions.values()].reduce((sum, entries) => sum + entries.length, 0)
  let done = 0
  for (const entries of sessions.values()) {
    const session = newSessionSoFar()
    const endings = createEndings(entries, existing, report)
    for (const [at, entry] of entries.entries()) {
      ports.signal.throwIfAborted()
      const request = await requestAt(entry)
      const { made, blob } = turnsOf(request, session, line, reading, newRecords.hasTurn, ports.now())
      const turns = made.map(({ turn }) => turn).filter(({ turn }) => newRecords.addTurn(turn))
      if (blob && turns[0]) {
        for (const chunk of blobChunks(blob.bytes, blob.sha256, turns[0].at, versions)) await appender.add(chunk)
        await appender.flush()
      }
      for (const turn of turns) {
        countTurn(report, turn)
        await appender.add(encodeEvent(turn, versions))
      }
      for (const feedback of made.flatMap((one) => one.feedback))
        if (newRecords.addFeedback(feedback.id)) await appender.add(encodeEvent(feedback, versions))
      const all = made.map(({ turn }) => turn)
      for (const closed of endings.after(at, request, all, turns.length))
        await appender.add(encodeEvent(closed, versions))
      done += 1
      ports.onProgress({ phase: 'writing', share: done / total, count: `${report.turns} turns` })
    }
    for (const closed of endings.atEnd()) await appender.add(encodeEvent(closed, versions))
    await appender.endSession()
  }
  await appender.flush()
}

/** Throws `not_announced` if the files hold episodes and older readers of the log do not know them. */
const requireEpisodes = (sessions: Write['sessions'], versions: Versions): void => {
  if (isReadable(versions, 'SessionClosed', 3) && isReadable(versions, 'TurnCaptured', 3)) return
  for (const entries of sessions.values())
    if (entries.some(({ episode: { task, outcome, discarded } }) => task || outcome || discarded))
      throw new InstarError(
        'not_announced',
        'The files hold episodes (task_id, outcome, discarded), which older readers of this log do not know.',
        { type: 'SessionClosed' },
      )
}

/** Reads a line again and parses it; holds the requests of the last line, since a line may hold several. */
const createRequestReader = (
  files: readonly ImportFile[],
  reading: Reading,
): ((entry: RequestEntry) => Promise<ImportedRequest>) => {
  let last: { key: string; requests: LineRequest[] } | null = null
  return async ({ file, line, part }) => {
    const key = `${file} ${line.number}`
    if (last?.key !== key) last = { key, requests: parseLine(await readLineAt(files[file]!.handle, line), reading) }
    return last.requests[part]!.request
  }
}
