/**
 * Reads server-sent events (WHATWG HTML, section 9.2) from the chunks of a stream. Only the field `data` is read, and
 * the field `error` of llama.cpp, which becomes `{"error": …}`.
 */
export class EventReader {
  private readonly decoder = new TextDecoder()
  private incomplete = ''

  /** The data of the events that this chunk completes. */
  push(bytes: Uint8Array): string[] {
    const parts = `${this.incomplete}${this.decoder.decode(bytes, { stream: true })}`.split(END)
    this.incomplete = parts.pop()!
    return parts.flatMap(dataOf)
  }
}

const END = /\r?\n\r?\n/

/** The data of one event; empty if it has none. */
const dataOf = (event: string): string[] => {
  // The form that all known servers write; the code below handles the other forms of the specification.
  if (event.startsWith('data:') && !event.includes('\n')) return [event.slice(5).trimStart()]
  const lines = event.split(/\r?\n/)
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart())
  for (const line of lines) if (line.startsWith('error:')) data.push(`{"error":${line.slice(6)}}`)
  return data.length > 0 ? [data.join('\n')] : []
}
