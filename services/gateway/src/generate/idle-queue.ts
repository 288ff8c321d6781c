/**
 * Work of the operator for which the model has time while no client's request runs: judgements. A client's request
 * interrupts what runs, which starts again from its beginning once the model is idle; the oldest goes first.
 */
import { InstarError } from '@instar/events'
import type { Running } from './running.ts'

/** `interrupted` counts each interruption; each work ends with one of the others. */
export type IdleOutcome = 'done' | 'failed' | 'given_up' | 'refused' | 'interrupted'

type IdlePorts = {
  /** The clients' requests. */
  running: Pick<Running, 'size'>
  meter: (outcome: IdleOutcome) => void
}

/** Works that run at a time. */
const AT_ONCE = 4

export class IdleQueue {
  private readonly ports: IdlePorts
  private readonly most: number
  /** In the order of arrival. */
  private readonly held: { start: (() => void) | null; interrupted: AbortController | null }[] = []
  private readonly stopped = new AbortController()

  /** `most`: works that are held, waiting or running; one beyond is refused. */
  constructor(ports: IdlePorts, most: number) {
    this.ports = ports
    this.most = most
  }

  /** Works that are held. */
  get size(): number {
    return this.held.length
  }

  /**
   * Runs `work` until it ends without an interruption. `signal` ends it early, with its reason. Throws `overloaded` if
   * the queue is full, `stopping` after `stop`, or as `work`.
   */
  async run<T>(signal: AbortSignal, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.held.length >= this.most) {
      this.ports.meter('refused')
      throw new InstarError('overloaded', 'Too many judgements wait for the model.')
    }
    const one: (typeof this.held)[number] = { start: null, interrupted: null }
    this.held.push(one)
    const ended = AbortSignal.any([signal, this.stopped.signal])
    try {
      for (;;) {
        await this.idle(one, ended)
        const { signal: interrupted } = one.interrupted!
        try {
          const result = await work(AbortSignal.any([ended, interrupted]))
          this.ports.meter('done')
          return result
        } catch (error) {
          ended.throwIfAborted()
          if (!interrupted.aborted) throw error
          this.ports.meter('interrupted')
        } finally {
          one.interrupted = null
        }
      }
    } catch (error) {
      this.ports.meter(ended.aborted ? 'given_up' : 'failed')
      throw error
    } finally {
      this.held.splice(this.held.indexOf(one), 1)
      this.wake()
    }
  }

  /** Interrupts what runs in favour of a client's request. */
  yield(): void {
    for (const { interrupted } of this.held) interrupted?.abort(new InstarError('aborted', 'A request came first.'))
  }

  /** Called when no client's request waits for the model. */
  wake(): void {
    let free = AT_ONCE - this.held.filter(({ interrupted }) => interrupted !== null).length
    for (const one of this.held) {
      if (this.ports.running.size > 0 || free <= 0) return
      if (one.start === null) continue
      free -= 1
      one.start()
    }
  }

  stop(): void {
    this.stopped.abort(new InstarError('stopping', 'The gateway is shutting down.'))
  }

  /** Resolves when `one` may run; rejects with the reason of `ended`. */
  private async idle(one: (typeof this.held)[number], ended: AbortSignal): Promise<void> {
    ended.throwIfAborted()
    const turn = Promise.withResolvers<void>()
    const end = (): void => turn.reject(ended.reason as Error)
    ended.addEventListener('abort', end, { once: true })
    one.start = () => {
      one.start = null
      one.interrupted = new AbortController()
      turn.resolve()
    }
    this.wake()
    try {
      await turn.promise
    } finally {
      one.start = null
      ended.removeEventListener('abort', end)
    }
  }
}
