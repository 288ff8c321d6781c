/** The first pass of an import: which sessions the files hold, and which lines cannot be parsed. */
import { InstarError } from '@instar/events'
import { holdsIds, type Reading } from '@instar/gateway/imported'
import type { FileHandle } from 'node:fs/promises'
import type { Line } from '../lines.ts'
import { readLines } from './jsonl.ts'
import type { ImportPorts } from './ports.ts'
import type { ImportReport } from './report.ts'
import { parseLine, refuseFutureTimes, sortEntries, type RequestEntry } from './requests.ts'

export type ImportFile = { path: string; handle: FileHandle }

type Scan = {
  files: readonly ImportFile[]
  /** `decode` is set at the first line that holds token ids. */
  reading: Reading
  ports: Pick<ImportPorts, 'tokenizer' | 'now' | 'onProgress' | 'signal'>
  /** Lines and skipped lines are counted in it. */
  report: ImportReport
}

/** Resolves with session → its requests in order. Rejects with the reason of `ports.signal`. */
export const scanFiles = async (scan: Scan): Promise<Map<string, RequestEntry[]>> => {
  const { files, ports, report } = scan
  const sessions = new Map<string, RequestEntry[]>()
  const sizes = await Promise.all(files.map(async ({ handle }) => (await handle.stat()).size))
  const totalBytes = Math.max(
    1,
    sizes.reduce((sum, size) => sum + size, 0),
  )
  let bytesBefore = 0
  for (const [file, { path, handle }] of files.entries()) {
    for await (const line of readLines(handle)) {
      ports.signal.throwIfAborted()
      report.lines += 1
      ports.onProgress({
        phase: 'reading',
        share: (bytesBefore + line.from + line.length) / totalBytes,
        count: `${report.lines} lines`,
      })
      try {
        await addEntries(scan, sessions, file, line)
      } catch (error) {
        if (!(error instanceof InstarError) || error.code === 'internal') throw error
        report.skipped.push({ file: path, line: line.number, reason: error.message })
      }
    }
    bytesBefore += sizes[file]!
  }
  return new Map([...sessions].map(([session, entries]) => [session, sortEntries(entries)]))
}

/** Throws the error of the first request that is refused; the requests before it are added. */
const addEntries = async (
  { reading, ports }: Scan,
  sessions: Map<string, RequestEntry[]>,
  file: number,
  { bytes, number, from, length }: Line,
): Promise<void> => {
  if (reading.decode === null && holdsIds(bytes)) reading.decode = (await ports.tokenizer())?.decode ?? null
  for (const [part, { request, step }] of parseLine(bytes, reading).entries()) {
    refuseFutureTimes(request, ports.now())
    const { task, outcome, discarded } = request.episode
    const entry: RequestEntry = {
      file,
      line: { number, from, length },
      part,
      at: request.times.at,
      step,
      episode: { task: task !== null, outcome: outcome !== null, discarded },
    }
    const entries = sessions.get(request.session)
    if (entries) entries.push(entry)
    else sessions.set(request.session, [entry])
  }
}
