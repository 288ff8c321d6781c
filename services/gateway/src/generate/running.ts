/** The running requests and the functions that cancel them. */
export class Running {
  private readonly controllers = new Set<AbortController>()
  private waiters: (() => void)[] = []

  get size(): number {
    return this.controllers.size
  }

  add(controller: AbortController): void {
    this.controllers.add(controller)
  }

  delete(controller: AbortController): void {
    this.controllers.delete(controller)
    if (this.controllers.size === 0) for (const wake of this.waiters.splice(0)) wake()
  }

  cut(reason: Error): void {
    for (const controller of this.controllers) controller.abort(reason)
  }

  /** Resolves when no request is running. */
  async idle(): Promise<void> {
    if (this.size > 0) await new Promise<void>((resolve) => this.waiters.push(resolve))
  }
}
