/** Reads server-sent events (WHATWG HTML, section 9.2) from the chunks of a response. */
import { createParser } from 'eventsource-parser'
import { WHOLE_ANSWER_BYTES_MAX } from '../protocols/answer-limits.ts'
import { EngineFault } from './http.ts'

/** Maximum length of one event, in UTF-16 code units: that of an answer in one event. */
const EVENT_LENGTH_MAX = WHOLE_ANSWER_BYTES_MAX

/** Maximum number of lines before an event is complete: comments that keep the connection open, and fields. */
const LINES_MAX = 100_000
const LINE_END = 0x0a

/** Only the field `data` is read, and the field `error` of llama.cpp, which becomes `{"error":…}`. */
export class EventReader {
  private readonly decoder = new TextDecoder()
  private completed: string[] = []
  private readonly parser: { feed: (chunk: string) => void }
  private readonly maxLength: number
  /** Of bytes and lines since the last complete event. */
  private bytes = 0
  private lines = 0

  constructor(maxLength: number = EVENT_LENGTH_MAX) {
    this.maxLength = maxLength
    this.parser = createParser({
      maxBufferSize: maxLength,
      onEvent: ({ data }) => this.completed.push(data),
      onError: ({ type, field, value }) => {
        if (type === 'max-buffer-size-exceeded')
          throw new EngineFault('response', `an event has more than ${maxLength} characters`)
        if (field === 'error') this.completed.push(`{"error":${value}}`)
      },
    })
  }

  /** Bytes since the last complete event. */
  get pending(): number {
    return this.bytes
  }

  /**
   * The data of the events that this chunk completes. Throws EngineFault if an event is too long, or if too much is sent
   * without one.
   */
  push(bytes: Uint8Array): string[] {
    this.completed = []
    this.bytes += bytes.length
    for (let at = bytes.indexOf(LINE_END); at >= 0; at = bytes.indexOf(LINE_END, at + 1)) this.lines += 1
    if (this.lines > LINES_MAX) throw new EngineFault('response', `more than ${LINES_MAX} lines are no event`)
    this.parser.feed(this.decoder.decode(bytes, { stream: true }))
    if (this.completed.length > 0) [this.bytes, this.lines] = [0, 0]
    else if (this.bytes > 4 * this.maxLength)
      throw new EngineFault('response', `more than ${4 * this.maxLength} bytes are no event`)
    return this.completed
  }
}
