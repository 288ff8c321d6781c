/** An auto-reset event for one waiter: a `raise` between two waits is not lost. */
export class Signal {
  #raised = false
  #wake: (() => void) | undefined

  raise(): void {
    this.#raised = true
    this.#wake?.()
    this.#wake = undefined
  }

  /** Resolves at the next `raise`, at once if there was one since the last wait. */
  async wait(): Promise<void> {
    if (!this.#raised)
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    this.#raised = false
  }
}
