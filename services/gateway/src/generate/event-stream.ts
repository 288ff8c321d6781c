/** Server-sent events on a Node response: opened by the first thing said, kept alive in silence, never cut short. */
import type { Frame } from '@instar/dialects'
import type { ServerResponse } from 'node:http'

/** More than so many characters do not wait for the end of the turn. */
const AT_ONCE = 16 * 1024

export class EventStream {
  private readonly raw: ServerResponse
  private readonly headers: Readonly<Record<string, string>>
  private readonly ping: NodeJS.Timeout
  private readonly stalledMs: number
  private ended = false
  /** Said in this turn of the event loop: it is written at once. */
  private held = ''
  private waiting = false
  /** The connection takes no more for now. */
  private full = false

  /** `ping`: what keeps a silent connection open; null: a comment. `stalledMs`: a client that takes nothing of what waits for it for so long is cut off. */
  constructor(
    raw: ServerResponse,
    headers: Readonly<Record<string, string>>,
    { pingMs, stalledMs }: { pingMs: number; stalledMs: number },
    ping: Frame | null = null,
  ) {
    this.raw = raw
    this.stalledMs = stalledMs
    this.headers = headers
    raw.on('drain', () => {
      this.full = false
    })
    this.ping = setInterval(() => {
      if (!this.ended && !raw.destroyed && raw.writableLength === 0) this.put(ping ? textOf(ping) : ': ping\n\n')
    }, pingMs)
  }

  get opened(): boolean {
    return this.raw.headersSent
  }

  /** False when the client is gone: nothing was sent. Otherwise resolves when there is room for more. */
  async send(frames: readonly Frame[]): Promise<boolean> {
    if (this.ended || this.raw.destroyed) return false
    if (frames.length === 0 || this.put(frames.map(textOf).join(''))) return true
    this.raw.setTimeout(this.stalledMs)
    await new Promise<void>((resolve) => {
      const settle = (): void => {
        this.raw.off('drain', settle)
        this.raw.off('close', settle)
        resolve()
      }
      this.raw.once('drain', settle)
      this.raw.once('close', settle)
    })
    this.raw.setTimeout(0)
    return true
  }

  /** With the last frames. */
  done(frames: readonly Frame[]): void {
    if (this.ended) return
    this.close()
    if (!this.raw.destroyed) {
      this.put(frames.map(textOf).join(''))
      this.flush()
      this.raw.setTimeout(this.stalledMs)
      this.raw.end()
    }
  }

  /** No more comments; what is said from now on is the caller's affair. */
  close(): void {
    this.ended = true
    clearInterval(this.ping)
  }

  private readonly flush = (): void => {
    this.waiting = false
    if (this.held === '' || this.raw.destroyed) return
    this.full = !this.raw.write(this.held)
    this.held = ''
  }

  /** False: there is no room for more. */
  private put(text: string): boolean {
    if (!this.raw.headersSent) {
      this.raw.writeHead(200, {
        ...this.headers,
        'content-type': 'text/event-stream; charset=utf-8',
        'cache-control': 'no-cache, no-transform',
        'x-accel-buffering': 'no',
      })
    }
    this.held += text
    if (this.held.length >= AT_ONCE) this.flush()
    else if (!this.waiting) {
      this.waiting = true
      process.nextTick(this.flush)
    }
    return !this.full
  }
}

/** A text is sent as it is, anything else as JSON. */
const textOf = ({ event, data }: Frame): string =>
  `${event === undefined ? '' : `event: ${event}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
