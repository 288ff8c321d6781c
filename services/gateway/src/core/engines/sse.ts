/**
 * Server-sent events from the bytes of a stream, however they are cut. Only `data` is read, and `error`, which
 * llama.cpp has written in its place: it becomes `{"error": …}`.
 */
export class EventReader {
  private readonly decoder = new TextDecoder()
  private held = ''

  /** The data of each event that is complete now. */
  push(bytes: Uint8Array): string[] {
    this.held += this.decoder.decode(bytes, { stream: true })
    const events: string[] = []
    for (;;) {
      const end = /\r?\n\r?\n/.exec(this.held)
      if (!end) return events
      const lines = this.held.slice(0, end.index).split(/\r?\n/)
      const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart())
      for (const line of lines) if (line.startsWith('error:')) data.push(`{"error":${line.slice(6)}}`)
      this.held = this.held.slice(end.index + end[0].length)
      if (data.length > 0) events.push(data.join('\n'))
    }
  }
}
