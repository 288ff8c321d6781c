/**
 * Stop strings over streamed text. What could still become a stop string is held back, so that no part of
 * one is ever shown, however the tokens cut it.
 */
export class StopStrings {
  private readonly stops: readonly string[]
  private held = ''

  constructor(stops: readonly string[]) {
    this.stops = stops.filter((stop) => stop !== '')
  }

  /** `text` may be shown now. Once `stopped`, nothing after counts. Of several that are complete, the one that begins first wins. */
  push(piece: string): { text: string; stopped: boolean } {
    this.held += piece
    let found = -1
    for (const stop of this.stops) {
      const at = this.held.indexOf(stop)
      if (at >= 0 && (found < 0 || at < found)) found = at
    }
    if (found >= 0) {
      const text = this.held.slice(0, found)
      this.held = ''
      return { text, stopped: true }
    }
    const keep = this.openTail()
    const text = this.held.slice(0, this.held.length - keep)
    this.held = this.held.slice(this.held.length - keep)
    return { text, stopped: false }
  }

  /** Length of the longest end of the held text that is the start of a stop string. */
  private openTail(): number {
    let longest = 0
    for (const stop of this.stops) {
      for (let length = Math.min(stop.length - 1, this.held.length); length > longest; length--) {
        if (this.held.endsWith(stop.slice(0, length))) longest = length
      }
    }
    return longest
  }

  /** The end of the answer: what was held was no stop string after all. */
  end(): string {
    const text = this.held
    this.held = ''
    return text
  }
}
