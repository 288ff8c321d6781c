/** Server-sent events on a Node response: opened by the first thing said, kept alive in silence, never cut short. */
import type { ServerResponse } from 'node:http'

export class EventStream {
  private readonly raw: ServerResponse
  private readonly headers: Readonly<Record<string, string>>
  private readonly ping: NodeJS.Timeout
  private ended = false

  constructor(raw: ServerResponse, headers: Readonly<Record<string, string>>, pingMs: number) {
    this.raw = raw
    this.headers = headers
    this.ping = setInterval(() => { if (!this.ended && !raw.destroyed && raw.writableLength === 0) this.put(': ping\n\n') }, pingMs)
  }

  get opened(): boolean {
    return this.raw.headersSent
  }

  /** False when the client is gone: nothing was sent. Otherwise resolves when there is room for more. */
  async send(value: unknown): Promise<boolean> {
    if (this.ended || this.raw.destroyed) return false
    if (this.put(`data: ${JSON.stringify(value)}\n\n`)) return true
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.raw.off('drain', settle)
        this.raw.off('close', settle)
        resolve()
      }
      this.raw.once('drain', settle)
      this.raw.once('close', settle)
    })
    return true
  }

  done(): void {
    if (this.ended) return
    this.close()
    if (!this.raw.destroyed) {
      this.put('data: [DONE]\n\n')
      this.raw.end()
    }
  }

  /** No more comments; what is said from now on is the caller's affair. */
  close(): void {
    this.ended = true
    clearInterval(this.ping)
  }

  private put(text: string): boolean {
    if (!this.raw.headersSent) {
      this.raw.writeHead(200, { ...this.headers, 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache, no-transform', 'x-accel-buffering': 'no' })
    }
    return this.raw.write(text)
  }
}
