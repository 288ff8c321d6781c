/**
 * Samples further candidates of answered requests while the engine is idle, as groups for GRPO. They use the version of
 * the answer and seeds that are drawn once, so that a candidate interrupted by a new request is sampled again with the
 * same result. Otherwise long answers would be underrepresented.
 */
import type { Outcome } from '../admin/metrics.ts'
import { turnId, type TurnFacts } from '@instar/events'
import { createPump } from '@instar/log'
import { Cancelled, generateCandidate, type CandidatePorts, type Task } from './candidate.ts'
import { hex } from '../prompt/admission.ts'
import type { Pool } from '../versions/pool.ts'
import type { Running } from './running.ts'

type BackgroundPorts = Pick<CandidatePorts, 'engine' | 'capture' | 'now'> & {
  pool: Pick<Pool, 'lease'>
  running: Pick<Running, 'size'>
  random: (bytes: number) => Uint8Array
  meter: { turn: NonNullable<CandidatePorts['meter']>['turn']; candidates: (outcome: Outcome, count: number) => void }
}
/**
 * `candidates`: per request, including the answer. `tokensPerHour`: budget for sampling. `patienceMs`: after this time,
 * a request's candidates are dropped.
 */
type BackgroundSettings = { candidates: number; tokensPerHour: number; patienceMs: number }

type Job = { shown: Task; left: Pick<Task, 'candidate'>['candidate'][]; at: number }

/** Maximum number of queued requests. */
const MOST_JOBS = 64
const HOUR_MS = 3_600_000

export class Background {
  private readonly ports: BackgroundPorts
  private readonly settings: BackgroundSettings
  private readonly jobs: Job[] = []
  private readonly pump = createPump(
    () => this.work(),
    () => this.jobs.splice(0),
  )
  private sampling: AbortController | null = null
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
    return candidates > 1 && !this.stopping && this.jobs.length < MOST_JOBS && this.tokens() > 0 ? candidates : 1
  }

  /** Candidates that are still to be sampled. */
  waiting(): number {
    return this.jobs.reduce((sum, { left }) => sum + left.length, 0)
  }

  /** Queues the remaining candidates of a request whose answer is on the log. */
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
    this.jobs.push({ shown: { ...shown, sink: null, span: null }, left, at: this.ports.now() })
  }

  /** Interrupts the sampling in favour of a client's request. */
  yield(): void {
    this.sampling?.abort(new Cancelled('client_gone'))
  }

  /** Called when no client's request waits for the engine. */
  wake(): void {
    this.pump.wake()
  }

  async stop(): Promise<void> {
    this.stopping = true
    this.yield()
    await this.pump.idle()
  }

  private async work(): Promise<void> {
    for (let job = this.jobs[0]; job && !this.stopping; job = this.jobs[0]) {
      const late = this.ports.now() - job.at > this.settings.patienceMs
      if (!late && this.ports.running.size > 0) return
      const outcome = late ? 'given_up' : await this.sample(job)
      if (outcome === null) continue
      this.jobs.shift()
      if (job.left.length > 0) this.ports.meter.candidates(outcome, job.left.length)
    }
  }

  /**
   * Returns null if interrupted; the candidate is then sampled again later. An error of the engine or the log drops the
   * candidate.
   */
  private async sample(job: Job): Promise<Outcome | null> {
    const { signal } = (this.sampling = new AbortController())
    try {
      const lease = await this.ports.pool.lease(job.shown.admitted.version)
      try {
        const done = await Promise.allSettled(
          job.left.map(async (candidate) => {
            await generateCandidate(
              { ...this.ports, spent: (tokens) => this.spend(tokens) },
              besides(job.shown, candidate, this.ports.now(), signal),
            )
            this.ports.meter.candidates('sampled', 1)
            return candidate
          }),
        )
        job.left = job.left.filter((_, i) => done[i]?.status === 'rejected')
        if (job.left.length === 0) return 'sampled'
        return signal.aborted ? null : 'failed'
      } finally {
        lease.release()
      }
    } catch {
      return signal.aborted ? null : 'failed'
    } finally {
      this.sampling = null
    }
  }

  /** Interrupted samples count as well, since they cost as much. */
  private spend(tokens: number): void {
    this.budget = { tokens: this.tokens() - tokens, at: this.ports.now() }
  }

  private tokens(): number {
    const { tokensPerHour } = this.settings
    return Math.min(tokensPerHour, this.budget.tokens + (tokensPerHour * (this.ports.now() - this.budget.at)) / HOUR_MS)
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
