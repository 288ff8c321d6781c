/** What the contract suite of the event log needs of a backend, and the records that it writes. */
import type { Topic } from '@instar/events/flow'
import { schemaTexts } from '@instar/events'
import type { Append, EventLog, LogRecord } from '@instar/log'

export type OpenOptions = {
  partitions?: Partial<Record<Topic, number>>
  queue?: { records?: number; bytes?: number }
}

export type Opened = {
  log: EventLog
  /** Opens the same data again, after `log` was closed or its process killed. */
  reopen(options?: OpenOptions): Promise<EventLog>
  /** Closes all open logs and deletes the data. */
  remove(): Promise<void>
  /** How another process opens the same data; absent if none can. */
  elsewhere?: Elsewhere
}

/** `module` exports `openElsewhere(place, readOnly): Promise<EventLog>`. */
export type Elsewhere = { module: string; place: string }

/** The only schema of the suite's records; the backend is opened with it. */
export const NOTE = 'Note.v1'
export const SCHEMAS = { [NOTE]: '{"type":"record","name":"Note","fields":[{"name":"text","type":"bytes"}]}' }

/** With that of the records that allow a cut, as logs store it. */
export const CUT_SCHEMAS = { ...SCHEMAS, 'LogCut.v1': JSON.stringify(JSON.parse(schemaTexts()['LogCut.v1']!)) }

const START = 1_700_000_000_000

export const note = (
  key: string,
  text: string,
  { topic = 'turns', timestamp = START }: { topic?: Topic; timestamp?: number } = {},
): Append => ({ topic, key, schema: NOTE, payload: Buffer.from(text), timestamp })

export const textOf = ({ payload }: LogRecord): string =>
  Buffer.from(payload.buffer, payload.byteOffset, payload.length).toString()

export const all = async (batches: AsyncIterable<LogRecord[]>): Promise<LogRecord[]> => {
  const records: LogRecord[] = []
  for await (const batch of batches) records.push(...batch)
  return records
}

/** The items of a sequence. */
export const listed = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = []
  for await (const item of items) found.push(item)
  return found
}

export const byKey = (records: readonly LogRecord[]): Map<string, string[]> => {
  const keys = new Map<string, string[]>()
  for (const record of records) {
    const texts = keys.get(record.key)
    if (texts) texts.push(textOf(record))
    else keys.set(record.key, [textOf(record)])
  }
  return keys
}

export const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
