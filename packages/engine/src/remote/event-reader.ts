/** Reads server-sent events (WHATWG HTML, section 9.2) from the chunks of a response. */
import { createParser } from 'eventsource-parser'
import { WHOLE_ANSWER_BYTES_MAX } from '../protocols/answer-limits.ts'
import { EngineFault } from './http.ts'

/** Maximum length of one event, in UTF-16 code units: that of an answer in one event. */
const EVENT_LENGTH_MAX = WHOLE_ANSWER_BYTES_MAX

/** Only the field `data` is read, and the field `error` of llama.cpp, which becomes `{"error":…}`. */
export class EventReader {
  private readonly decoder = new TextDecoder()
  private completed: string[] = []
  private readonly parser: { feed: (chunk: string) => void }

  constructor(maxLength: number = EVENT_LENGTH_MAX) {
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

  /** The data of the events that this chunk completes. Throws EngineFault if an event is too long. */
  push(bytes: Uint8Array): string[] {
    this.completed = []
    this.parser.feed(this.decoder.decode(bytes, { stream: true }))
    return this.completed
  }
}
