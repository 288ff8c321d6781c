/**
 * Work for which the model has time while no client's request runs: judgements of the operator, background candidates and
 * log-probs that a page of the dashboard shows. A client's request interrupts what runs, which starts again from its beginning once the model is idle; the
 * oldest goes first. Where requests never pause, one work at a time runs beside them, so that none waits for ever.
 */
import { InstarError } from '@instar/events'
import type { Running } from './running.ts'

export type IdleWork = 'judgement' | 'candidates' | 'logprobs'
/** `interrupted` counts each interruption; each work ends with one of the others. */
export type IdleOutcome = 'done' | 'failed' | 'given_up' | 'refused' | 'interrupted'

type IdlePorts = {
  /** The clients' requests. */
  running: Pick<Running, 'size'>
  /** Milliseconds of a clock that is never set. */
  monotonic: () => number
  meter: { idle: (work: IdleWork, outcome: IdleOutcome) => void; beside: (work: IdleWork) => void }
}
/**
 * `most`: works of a kind that are held, waiting or running; one beyond is refused. A caller may have half of them.
 * `besideMs`: the oldest work that has waited so long runs beside requests; at most one begins in this time.
 */
type IdleSettings = { most: Readonly<Record<IdleWork, number>>; besideMs: number }

type Held = {
  work: IdleWork
  /** Whose it is; null: of no caller. */
  who: string | null
  /** When it began to wait. */
  since: number
  /** Set while it waits. */
  start: ((beside: boolean) => void) | null
  /** Set while it runs. */
  interrupted: AbortController | null
  /** It runs beside requests, and none interrupts it. */
  beside: boolean
}

/** Works of a kind that run at a time; one of candidates is a whole group. */
const AT_ONCE: Readonly<Record<IdleWork, number>> = { judgement: 4, candidates: 1, logprobs: 1 }

export class IdleQueue {
  private readonly ports: IdlePorts
  private readonly settings: IdleSettings
  /** In the order of arrival. */
  private readonly held: Held[] = []
  private readonly stopped = new AbortController()
  /** When a work last began beside requests. */
  private besideAt = -Infinity
  private timer: NodeJS.Timeout | null = null

  constructor(ports: IdlePorts, settings: IdleSettings) {
    this.ports = ports
    this.settings = settings
  }

  /** Works of a kind that are held. */
  size(work: IdleWork): number {
    return this.held.filter((one) => one.work === work).length
  }

  /**
   * Runs `run` until it ends without an interruption. `signal` ends it early, with its reason. `beside`: requests run
   * too, so it should be short. `who`: the caller whose share it counts for. Throws `overloaded` if too many are held,
   * `stopping` after `stop`, or as `run`.
   */
  async run<T>(
    work: IdleWork,
    signal: AbortSignal,
    run: (signal: AbortSignal, beside: boolean) => Promise<T>,
    who: string | null = null,
  ): Promise<T> {
    const { meter, monotonic } = this.ports
    const own = this.held.filter((one) => who !== null && one.work === work && one.who === who).length
    if (this.size(work) >= this.settings.most[work] || own >= this.settings.most[work] / 2) {
      meter.idle(work, 'refused')
      throw new InstarError('overloaded', `Too many ${work === 'judgement' ? 'judgements' : work} wait for the model.`)
    }
    const one: Held = { work, who, since: monotonic(), start: null, interrupted: null, beside: false }
    this.held.push(one)
    const ended = AbortSignal.any([signal, this.stopped.signal])
    try {
      for (;;) {
        await this.turnOf(one, ended)
        const { signal: interrupted } = one.interrupted!
        try {
          const result = await run(AbortSignal.any([ended, interrupted]), one.beside)
          meter.idle(work, 'done')
          return result
        } catch (error) {
          ended.throwIfAborted()
          if (!interrupted.aborted) throw error
          meter.idle(work, 'interrupted')
        } finally {
          one.interrupted = null
          one.beside = false
        }
      }
    } catch (error) {
      meter.idle(work, ended.aborted ? 'given_up' : 'failed')
      throw error
    } finally {
      this.held.splice(this.held.indexOf(one), 1)
      this.wake()
    }
  }

  /** Interrupts what runs in favour of a client's request, except a work that runs beside requests. */
  yield(): void {
    for (const { interrupted, beside } of this.held)
      if (!beside) interrupted?.abort(new InstarError('aborted', 'A request came first.'))
  }

  /** Called when a client's request has ended. */
  wake(): void {
    const { running, meter } = this.ports
    for (const one of this.held) {
      if (running.size > 0) break
      if (this.runs(one.work) < AT_ONCE[one.work]) one.start?.(false)
    }
    const next = this.held.find(({ start }) => start !== null)
    if (!next || running.size === 0 || this.held.some(({ beside }) => beside)) return
    const { besideMs } = this.settings
    const now = this.ports.monotonic()
    const wait = Math.max(next.since, this.besideAt) + besideMs - now
    if (wait > 0) return this.wakeIn(wait)
    this.besideAt = now
    meter.beside(next.work)
    next.start!(true)
  }

  stop(): void {
    if (this.timer) clearTimeout(this.timer)
    this.stopped.abort(new InstarError('stopping', 'The gateway is shutting down.'))
  }

  private runs(work: IdleWork): number {
    return this.held.filter((one) => one.work === work && one.interrupted !== null).length
  }

  private wakeIn(ms: number): void {
    if (this.timer || this.stopped.signal.aborted) return
    this.timer = setTimeout(() => {
      this.timer = null
      this.wake()
    }, Math.ceil(ms))
    this.timer.unref()
  }

  /** Resolves when `one` may run; rejects with the reason of `ended`. */
  private async turnOf(one: Held, ended: AbortSignal): Promise<void> {
    ended.throwIfAborted()
    const turn = Promise.withResolvers<void>()
    const end = (): void => turn.reject(ended.reason as Error)
    ended.addEventListener('abort', end, { once: true })
    one.start = (beside) => {
      one.start = null
      one.interrupted = new AbortController()
      one.beside = beside
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
