/**
 * Samples further candidates of answered requests while the model is idle (idle-queue.ts), as groups for GRPO. They use
 * the version of the answer and seeds that are drawn once, so that a candidate interrupted by a new request is sampled
 * again with the same result. Otherwise long answers would be underrepresented.
 */
import type { Outcome } from '../admin/metrics.ts'
import { turnId, type TurnFacts } from '@instar/events'
import { LONGEST_TIMER_MS } from '@instar/log'
import { generateCandidate, type CandidatePorts, type Task } from './candidate.ts'
import { hex } from './random.ts'
import type { Pool } from '../versions/pool.ts'
import type { IdleQueue } from './idle-queue.ts'

type BackgroundPorts = Pick<CandidatePorts, 'engine' | 'capture' | 'now'> & {
  pool: Pick<Pool, 'lease'>
  idle: Pick<IdleQueue, 'run'>
  random: (bytes: number) => Uint8Array
  meter: { turn: NonNullable<CandidatePorts['meter']>['turn']; candidates: (outcome: Outcome, count: number) => void }
}
/**
 * `candidates`: per request, including the answer. `tokensPerHour`: budget for sampling. `patienceMs`: after this time,
 * a request's candidates are dropped.
 */
type BackgroundSettings = { candidates: number; tokensPerHour: number; patienceMs: number }

type Job = { shown: Task; left: Pick<Task, 'candidate'>['candidate'][] }

/** Maximum number of requests whose candidates wait. */
export const MOST_JOBS = 64
const HOUR_MS = 3_600_000

export class Background {
  private readonly ports: BackgroundPorts
  private readonly settings: BackgroundSettings
  private readonly jobs = new Map<Job, Promise<void>>()
  private stopping = false
  /** Tokens that may be sampled, as of `at`. */
  private budget: { tokens: number; at: number }

  constructor(ports: BackgroundPorts, settings: BackgroundSettings) {
    this.ports = ports
    this.settings = settings
    this.budget = { tokens: settings.tokensPerHour, at: ports.now() }
  }

  /** How many candidates a request for a single answer gets. */
  wanted(): number {
    const { candidates } = this.settings
    return candidates > 1 && !this.stopping && this.jobs.size < MOST_JOBS && this.tokens() > 0 ? candidates : 1
  }

  /** Candidates that are still to be sampled. */
  waiting(): number {
    return [...this.jobs.keys()].reduce((sum, { left }) => sum + left.length, 0)
  }

  /** Samples the remaining candidates of a request whose answer is on the log, once the model is idle. */
  add(shown: Task): void {
    const {
      admitted,
      candidate: { sampling },
    } = shown
    const left = Array.from({ length: admitted.candidates - 1 }, (_, i) => ({
      turn: turnId(admitted.session, hex(this.ports.random(16))),
      candidate: i + 1,
      sampling: { ...sampling, seed: Buffer.from(this.ports.random(4)).readUInt32LE() >>> 1 },
    }))
    const job: Job = { shown: { ...shown, sink: null, span: null }, left }
    this.jobs.set(
      job,
      this.work(job).finally(() => this.jobs.delete(job)),
    )
  }

  /** Call it after the queue was stopped. Resolves when no candidate is being sampled. */
  async stop(): Promise<void> {
    this.stopping = true
    await Promise.all(this.jobs.values())
  }

  /** An error of the engine or the log drops the candidates that are left. */
  private async work(job: Job): Promise<void> {
    const late = AbortSignal.timeout(Math.min(this.settings.patienceMs, LONGEST_TIMER_MS))
    try {
      while (job.left.length > 0)
        await this.ports.idle.run('candidates', late, (signal, beside) => this.sample(job, signal, beside))
    } catch {
      if (!this.stopping) this.ports.meter.candidates(late.aborted ? 'given_up' : 'failed', job.left.length)
    }
  }

  /** Samples all candidates that are left, beside requests one. Throws if one is left of them. */
  private async sample(job: Job, signal: AbortSignal, beside: boolean): Promise<void> {
    const lease = await this.ports.pool.lease(job.shown.admitted.version)
    try {
      const done = await Promise.allSettled(
        job.left.slice(0, beside ? 1 : undefined).map(async (candidate) => {
          await generateCandidate(
            { ...this.ports, spent: (tokens) => this.spend(tokens) },
            besides(job.shown, candidate, this.ports.now(), signal),
          )
          this.ports.meter.candidates('sampled', 1)
        }),
      )
      job.left = job.left.filter((_, i) => done[i]?.status !== 'fulfilled')
      const failed = done.find(({ status }) => status === 'rejected')
      if (failed?.status === 'rejected') throw failed.reason
    } finally {
      lease.release()
    }
  }

  /** Interrupted samples count as well, since they cost as much. */
  private spend(tokens: number): void {
    this.budget = { tokens: this.tokens() - tokens, at: this.ports.now() }
  }

  private tokens(): number {
    const { tokensPerHour } = this.settings
    // Negative where the clock was set back.
    const elapsed = Math.max(0, this.ports.now() - this.budget.at)
    return Math.min(tokensPerHour, this.budget.tokens + (tokensPerHour * elapsed) / HOUR_MS)
  }
}

/** A background task for one candidate. The shown turn holds the whole request. */
const besides = (shown: Task, candidate: Job['left'][number], at: number, signal: AbortSignal): Task => {
  const {
    admitted: { body, ...admitted },
    prompt,
    candidate: { turn: from },
  } = shown
  const same: Pick<TurnFacts, 'body' | 'prompt'> = {
    body: {
      from,
      prefix: body.length,
      suffix: 0,
      written: { keyId: null, bytes: new Uint8Array(0) },
      blob: null,
      length: body.length,
      sha256: body.sha256,
    },
    prompt: { from, prefix: prompt.length, ids: [], length: prompt.length },
  }
  return {
    ...shown,
    admitted: { ...admitted, ...same, at },
    candidate,
    topLogprobs: 0,
    parent: null,
    shown: false,
    signal,
  }
}
