/** Sends what the pipeline does now to open pages: one reading for all of them, sent when it differs. */
import type { ServerResponse } from 'node:http'
import { EventStream } from '../generate/event-stream.ts'

type LiveSettings = {
  read: () => Promise<unknown>
  /** Time between two readings while a page is open, in milliseconds. */
  everyMs: number
  pingMs: number
  stalledMs: number
}

/** Pages that may be open at a time. One beyond gets `overloaded`. */
export const MOST_PAGES = 64

export class Live {
  private readonly settings: LiveSettings
  private readonly streams = new Set<EventStream>()
  private last = ''
  private timer: NodeJS.Timeout | null = null
  private reading = false

  constructor(settings: LiveSettings) {
    this.settings = settings
  }

  get size(): number {
    return this.streams.size
  }

  /** Opens a stream of `now` events on the response; the first follows at once. */
  open(raw: ServerResponse, headers: Readonly<Record<string, string>>): void {
    const stream = new EventStream(raw, headers, this.settings)
    this.streams.add(stream)
    raw.once('close', () => {
      stream.close()
      this.streams.delete(stream)
      if (this.streams.size === 0) this.rest()
    })
    this.last = ''
    this.timer ??= setInterval(() => void this.tick(), this.settings.everyMs)
    void this.tick()
  }

  stop(): void {
    this.rest()
    for (const stream of this.streams) stream.done([])
    this.streams.clear()
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
      if (shown === this.last) return
      this.last = shown
      // A page that does not read misses readings: the stream drops it after `stalledMs`.
      for (const stream of this.streams) void stream.send([{ event: 'now', data }])
    } catch {
      // The next reading may succeed.
    } finally {
      this.reading = false
    }
  }
}
