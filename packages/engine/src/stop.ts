/**
 * Finds stop strings in streamed text. Text that may be the start of a stop string is buffered, so no part of a stop
 * string is ever returned, even if it is split over several tokens.
 */
export class StopStrings {
  private readonly stops: readonly string[]
  private buffered = ''

  constructor(stops: readonly string[]) {
    this.stops = stops.filter((stop) => stop !== '')
  }

  /** `text` can be sent now. `stopped`: a stop string was found, the one that begins first if there are several. */
  push(piece: string): { text: string; stopped: boolean } {
    this.buffered += piece
    let start = -1
    for (const stop of this.stops) {
      const at = this.buffered.indexOf(stop)
      if (at >= 0 && (start < 0 || at < start)) start = at
    }
    if (start >= 0) {
      const text = this.buffered.slice(0, start)
      this.buffered = ''
      return { text, stopped: true }
    }
    const incomplete = this.incompleteLength()
    const text = this.buffered.slice(0, this.buffered.length - incomplete)
    this.buffered = this.buffered.slice(this.buffered.length - incomplete)
    return { text, stopped: false }
  }

  /** Length of the longest suffix of the buffered text that is a prefix of a stop string. */
  private incompleteLength(): number {
    let longest = 0
    for (const stop of this.stops) {
      for (let length = Math.min(stop.length - 1, this.buffered.length); length > longest; length--) {
        if (this.buffered.endsWith(stop.slice(0, length))) longest = length
      }
    }
    return longest
  }

  /** Call at the end of the answer. Returns the buffered text, which is not a stop string. */
  end(): string {
    const text = this.buffered
    this.buffered = ''
    return text
  }
}
