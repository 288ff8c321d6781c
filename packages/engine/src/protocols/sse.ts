/**
 * Server-sent events from the bytes of a stream, however they are cut. Only `data` is read, and `error`, which
 * llama.cpp has written in its place: it becomes `{"error": …}`.
 */
export class EventReader {
  private readonly decoder = new TextDecoder()
  private held = ''

  /** The data of each event that is complete now. */
  push(bytes: Uint8Array): string[] {
    const parts = `${this.held}${this.decoder.decode(bytes, { stream: true })}`.split(END)
    this.held = parts.pop()!
    return parts.flatMap(dataOf)
  }
}

const END = /\r?\n\r?\n/

/** None, or one. */
const dataOf = (event: string): string[] => {
  // What every server writes; the rest is for those that the specification allows besides.
  if (event.startsWith('data:') && !event.includes('\n')) return [event.slice(5).trimStart()]
  const lines = event.split(/\r?\n/)
  const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart())
  for (const line of lines) if (line.startsWith('error:')) data.push(`{"error":${line.slice(6)}}`)
  return data.length > 0 ? [data.join('\n')] : []
}
