/** Parses lines into requests, and orders the requests of a session. */
import { parseJson } from '@instar/dialects'
import { InstarError } from '@instar/events'
import { readLine, type ImportedRequest, type Reading } from '@instar/gateway/imported'
import type { LinePosition } from '../lines.ts'

/**
 * Where a request is in the files. `file`: index of the file; `part`: index of the request in its line. `at`: ms since
 * the epoch; `step`: index in its trajectory; null where the line holds none. `episode`: whether the line holds a task, an
 * outcome, or says that the episode was aborted.
 */
export type RequestEntry = {
  file: number
  line: LinePosition
  part: number
  at: number | null
  step: number | null
  episode: { task: boolean; outcome: boolean; discarded: boolean }
}

export type LineRequest = { request: ImportedRequest; step: number | null }

/** Throws `bad_request`. */
export const parseLine = (bytes: Buffer, reading: Reading): LineRequest[] => {
  try {
    return readLine(parseJson(bytes), reading).map(({ spoken, place }) => ({ request: spoken, step: place }))
  } catch (error) {
    if (error instanceof InstarError && error.message.startsWith('The request body'))
      throw new InstarError('bad_request', 'The line is not a JSON object in UTF-8.', {}, { cause: error })
    throw error
  }
}

const MAX_CLOCK_SKEW_MS = 24 * 3600 * 1000

/** Throws `bad_request`: a session with a time in the future would not become idle. */
export const refuseFutureTimes = ({ times, episode }: ImportedRequest, now: number): void => {
  const latest = now + MAX_CLOCK_SKEW_MS
  const future = [times.at, times.finishedAt, times.firstTokenAt, episode.outcome?.at ?? null].find(
    (time) => time !== null && time > latest,
  )
  if (future !== undefined && future !== null)
    throw new InstarError(
      'bad_request',
      `The line holds a time in the future: ${new Date(future).toISOString()}. Correct it, or the clock of this machine.`,
    )
}

/** By step index, else by time, where all requests hold it; else in the order of the files. */
export const sortEntries = (entries: readonly RequestEntry[]): RequestEntry[] => {
  if (entries.every(({ step }) => step !== null)) return entries.toSorted((a, b) => a.step! - b.step!)
  return entries.every(({ at }) => at !== null) ? entries.toSorted((a, b) => a.at! - b.at!) : [...entries]
}
