/** Server-sent events on a Node response. The first frame opens the stream; comments keep a silent connection open. */
import type { Frame } from '@instar/dialects'
import type { ServerResponse } from 'node:http'

/** Characters from which frames are written at once instead of at the end of the event loop's turn. */
const AT_ONCE = 16 * 1024

export class EventStream {
  private readonly raw: ServerResponse
  private readonly headers: Readonly<Record<string, string>>
  private readonly ping: NodeJS.Timeout
  private readonly stalledMs: number
  private ended = false
  /** Frames of this turn of the event loop, which are written together at its end. */
  private held = ''
  private waiting = false
  /** The connection's buffer is full. */
  private full = false
  /** Resolved once it is not, or the connection has closed; null unless somebody waits. */
  private room: PromiseWithResolvers<void> | null = null

  /**
   * `ping`: the frame that keeps a silent connection open; null: a comment. `stalledMs`: a client that reads nothing
   * for so long is disconnected.
   */
  constructor(
    raw: ServerResponse,
    headers: Readonly<Record<string, string>>,
    { pingMs, stalledMs }: { pingMs: number; stalledMs: number },
    ping: Frame | null = null,
  ) {
    this.raw = raw
    this.stalledMs = stalledMs
    this.headers = headers
    raw.on('drain', this.free)
    raw.on('close', this.free)
    this.ping = setInterval(() => {
      if (!this.ended && !raw.destroyed && raw.writableLength === 0) this.put(ping ? textOf(ping) : ': ping\n\n')
    }, pingMs)
  }

  get opened(): boolean {
    return this.raw.headersSent
  }

  /** Returns false if the client has disconnected and nothing was sent. Otherwise resolves when the buffer has room. */
  async send(frames: readonly Frame[]): Promise<boolean> {
    if (this.ended || this.raw.destroyed) return false
    if (frames.length === 0 || this.put(frames.map(textOf).join(''))) return true
    if (!this.room) this.raw.setTimeout(this.stalledMs)
    this.room ??= Promise.withResolvers<void>()
    await this.room.promise
    return true
  }

  /** Sends the last frames and ends the stream. */
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

  /** Stops the comments. The caller writes the rest of the response. */
  close(): void {
    this.ended = true
    clearInterval(this.ping)
  }

  /** For all that wait. */
  private readonly free = (): void => {
    this.full = false
    if (!this.room) return
    if (!this.ended) this.raw.setTimeout(0)
    this.room.resolve()
    this.room = null
  }

  private readonly flush = (): void => {
    this.waiting = false
    if (this.held === '' || this.raw.destroyed) return
    this.full = !this.raw.write(this.held)
    this.held = ''
  }

  /** Returns false if the buffer is full. */
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

/** A string is sent as it is, any other value as JSON. */
const textOf = ({ event, data }: Frame): string =>
  `${event === undefined ? '' : `event: ${event}\n`}data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
