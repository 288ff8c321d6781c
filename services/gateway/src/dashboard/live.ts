/** Sends what the pipeline does now to open pages: one reading for all of them, sent when it differs. */
import { InstarError } from '@instar/events'
import type { ServerResponse } from 'node:http'
import { EventStream } from '../generate/event-stream.ts'

type LiveSettings = {
  read: () => Promise<unknown>
  /** Time between two readings while a page is open, in milliseconds. */
  everyMs: number
  pingMs: number
  stalledMs: number
}

/** `who`: the caller. `sent`: the last reading that was written. `waits`: its connection's buffer is full, and nothing more is written. */
type Page = { who: string; sent: string; waits: boolean }

/** Pages that may be open at a time. */
export const MOST_PAGES = 64
/** Pages of one key, of the operator, or of one address without a key. */
export const MOST_PAGES_EACH = 24

export class Live {
  private readonly settings: LiveSettings
  private readonly pages = new Map<EventStream, Page>()
  private timer: NodeJS.Timeout | null = null
  private reading = false

  constructor(settings: LiveSettings) {
    this.settings = settings
  }

  get size(): number {
    return this.pages.size
  }

  /** Throws `overloaded` if no further page of this caller may be open. */
  checkRoom(who: string): void {
    if (this.pages.size >= MOST_PAGES) throw new InstarError('overloaded', `More than ${MOST_PAGES} pages are open.`)
    const own = [...this.pages.values()].filter((page) => page.who === who).length
    if (own >= MOST_PAGES_EACH)
      throw new InstarError('overloaded', `More than ${MOST_PAGES_EACH} pages of this caller are open.`)
  }

  /** Opens a stream of `now` events of a caller on the response; the first follows at once. */
  open(raw: ServerResponse, headers: Readonly<Record<string, string>>, who: string): void {
    const stream = new EventStream(raw, headers, this.settings)
    this.pages.set(stream, { who, sent: '', waits: false })
    raw.once('close', () => {
      stream.close()
      this.pages.delete(stream)
      if (this.pages.size === 0) this.rest()
    })
    this.timer ??= setInterval(() => void this.tick(), this.settings.everyMs)
    void this.tick()
  }

  stop(): void {
    this.rest()
    for (const stream of this.pages.keys()) stream.done([])
    this.pages.clear()
  }

  private rest(): void {
    if (this.timer) clearInterval(this.timer)
    this.timer = null
  }

  private async tick(): Promise<void> {
    if (this.reading) return
    this.reading = true
    try {
      const data = JSON.stringify(await this.settings.read())
      // The time of the reading alone is no news.
      const shown = data.replace(/^\{"at":"[^"]*",?/, '{')
      for (const [stream, page] of this.pages) void this.give(stream, page, data, shown)
    } catch {
      // The next reading may succeed.
    } finally {
      this.reading = false
    }
  }

  /**
   * A page that does not read misses readings, and is dropped after `stalledMs`. Each write would begin that time again, and
   * wait in memory.
   */
  private async give(stream: EventStream, page: Page, data: string, shown: string): Promise<void> {
    if (page.waits || page.sent === shown) return
    page.sent = shown
    page.waits = true
    await stream.send([{ event: 'now', data }])
    page.waits = false
  }
}
