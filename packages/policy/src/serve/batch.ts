/**
 * Continuous batching: requests join and leave between steps, the rows of a step may use different adapters, and a
 * long prompt is prefilled in chunks between the steps of other rows. A finished row keeps its KV cache until the row
 * is reused, so that a prompt with the same prefix is not computed again.
 */
import { InstarError } from '@instar/events/errors'
import type { Constrainer, ConstraintCursor } from '@instar/grammar'
import type { AdapterSha } from '@instar/engine/port'
import type { TextTokenizer } from '../tokenizer/tokenizer.ts'
import type { Decoder, DecodeRow } from './decoder.ts'
import { Generation, Scoring, type BatchEvent, type JobRequest } from './job.ts'
import { AdapterSlots } from './slots.ts'

/** Prompt tokens prefilled in one step: while other rows are decoding, and while none is. */
export type BatchSettings = { prefillBusy: number; prefillIdle: number }

type BatchWork = { kind: 'generate'; generation: Generation } | { kind: 'score'; scoring: Scoring; firstLogits: number }
/**
 * `ids`: prompt and completion so far; all of them must be in the cache of the row before the next token is sampled.
 * `mayReuse`: how many of the first ids may come from the cache of an earlier job.
 */
type Job = { key: number; adapter: AdapterSha; ids: number[]; mayReuse: number; work: BatchWork }
/**
 * `cached`: the ids whose keys and values are in the cache of the row, computed with `adapter`. `used`: logical time at
 * which the last job ended.
 */
type CacheRow = {
  index: number
  cached: number[]
  adapter: AdapterSha
  used: number
  job: Job | null
  slot: number | null
}

function commonPrefix(a: readonly number[], b: readonly number[], limit: number): number {
  const end = Math.min(a.length, b.length, limit)
  let n = 0
  while (n < end && a[n] === b[n]) n++
  return n
}

export class Batcher {
  readonly adapters: AdapterSlots
  private readonly decoder: Decoder
  private readonly tokenizer: Pick<TextTokenizer, 'bytesOf'>
  private readonly endOfTurn: ReadonlySet<number>
  private readonly settings: BatchSettings
  private readonly constrainer: Constrainer | null
  private readonly rows: CacheRow[]
  private readonly waiting: Job[] = []
  private clock = 0
  private events: BatchEvent[] = []

  constructor(
    decoder: Decoder,
    tokenizer: Pick<TextTokenizer, 'bytesOf'>,
    endOfTurn: readonly number[],
    settings: BatchSettings,
    constrainer: Constrainer | null = null,
  ) {
    this.decoder = decoder
    this.tokenizer = tokenizer
    this.endOfTurn = new Set(endOfTurn)
    this.settings = settings
    this.constrainer = constrainer
    this.adapters = new AdapterSlots(decoder)
    this.rows = Array.from({ length: decoder.rows }, (_, index) => ({
      index,
      cached: [],
      adapter: null,
      used: 0,
      job: null,
      slot: null,
    }))
  }

  /**
   * Adds a request to the end of the queue. Emits the error `unknown_adapter` if its adapter is not loaded, and
   * `bad_request` if its constraint is not supported.
   */
  submit(key: number, request: JobRequest): void {
    const { adapter, prompt } = request
    let constraint: ConstraintCursor | null = null
    try {
      if (request.kind === 'generate' && request.constraint)
        constraint = this.constrainer?.begin(request.constraint) ?? null
    } catch (error) {
      return this.fail(key, error)
    }
    if (adapter !== null && !this.adapters.has(adapter))
      return this.fail(key, new InstarError('unknown_adapter', `The adapter ${adapter} is not loaded.`, { adapter }))
    if (adapter !== null) this.adapters.join(adapter)
    if (request.kind === 'generate') {
      this.waiting.push({
        key,
        adapter,
        ids: [...prompt],
        mayReuse: prompt.length - 1,
        work: { kind: 'generate', generation: new Generation(request, this.tokenizer, this.endOfTurn, constraint) },
      })
    } else {
      const ids = [...prompt, ...request.completion.slice(0, -1)]
      this.waiting.push({
        key,
        adapter,
        ids,
        mayReuse: prompt.length - 1,
        work: { kind: 'score', scoring: new Scoring(request), firstLogits: prompt.length - 1 },
      })
    }
  }

  /** Ends a request, queued or running; no further event has its key. */
  abort(key: number): void {
    const at = this.waiting.findIndex((job) => job.key === key)
    const [job] = at < 0 ? [] : this.waiting.splice(at, 1)
    if (job && job.adapter !== null) this.adapters.leave(job.adapter)
    const row = this.rows.find((candidate) => candidate.job?.key === key)
    if (row) this.free(row)
  }

  idle(): boolean {
    return this.waiting.length === 0 && this.events.length === 0 && this.rows.every((row) => row.job === null)
  }

  /**
   * Assigns queued requests to free rows, prefills one set of chunks, and samples a token for every row that is ready.
   */
  async step(): Promise<BatchEvent[]> {
    await this.admit()
    await this.prefill()
    await this.decode()
    const events = this.events
    this.events = []
    return events
  }

  private fail(key: number, error: unknown): void {
    const { code, message, details } =
      error instanceof InstarError
        ? error
        : new InstarError('internal', error instanceof Error ? error.message : String(error))
    this.events.push({ key, type: 'error', code, message, details: { ...details } })
  }

  private free(row: CacheRow): void {
    if (row.slot !== null) this.adapters.release(row.slot)
    if (row.job && row.job.adapter !== null) this.adapters.leave(row.job.adapter)
    row.job = null
    row.slot = null
    row.used = ++this.clock
  }

  /**
   * In the order of the queue. A request for whose adapter no slot is free blocks the requests behind it; otherwise it
   * could wait indefinitely.
   */
  private async admit(): Promise<void> {
    for (let job = this.waiting[0]; job; job = this.waiting[0]) {
      const row = this.bestRow(job)
      if (!row) return
      let slot: number | null = null
      if (job.adapter !== null) {
        try {
          slot = await this.adapters.take(job.adapter)
        } catch (error) {
          this.abort(job.key)
          this.fail(job.key, error)
          continue
        }
        // The request was aborted while the adapter was being installed.
        if (this.waiting[0] !== job) {
          if (slot !== null) this.adapters.release(slot)
          continue
        }
        if (slot === null) return
      }
      this.waiting.shift()
      const reuse = row.adapter === job.adapter ? commonPrefix(row.cached, job.ids, job.mayReuse) : 0
      row.cached.length = reuse
      row.adapter = job.adapter
      row.job = job
      row.slot = slot
    }
  }

  /** The free row whose cache has the longest common prefix with the prompt; among equals the least recently used. */
  private bestRow(job: Job): CacheRow | null {
    let best: CacheRow | null = null
    let bestReuse = -1
    for (const row of this.rows) {
      if (row.job) continue
      const reuse = row.adapter === job.adapter ? commonPrefix(row.cached, job.ids, job.mayReuse) : 0
      if (!best || reuse > bestReuse || (reuse === bestReuse && row.used < best.used)) [best, bestReuse] = [row, reuse]
    }
    return best
  }

  private isPrefilling(row: CacheRow): boolean {
    return row.job !== null && (row.job.work.kind === 'score' || row.job.ids.length - row.cached.length > 1)
  }

  /** Takes rows in the order of their requests while the padded batch (rows × longest chunk) is within the budget. */
  private async prefill(): Promise<void> {
    const prefilling = this.rows
      .filter((row) => this.isPrefilling(row))
      .sort((a, b) => (a.job?.key ?? 0) - (b.job?.key ?? 0))
    if (prefilling.length === 0) return
    const busy = this.rows.some((row) => row.job && !this.isPrefilling(row))
    const budget = busy ? this.settings.prefillBusy : this.settings.prefillIdle
    const chunks: { row: CacheRow; length: number }[] = []
    let longest = 0
    for (const row of prefilling) {
      const length = Math.min((row.job?.ids.length ?? 0) - row.cached.length, budget)
      if (chunks.length > 0 && (chunks.length + 1) * Math.max(longest, length) > budget) break
      longest = Math.max(longest, length)
      chunks.push({ row, length })
    }
    await this.run(chunks)
  }

  private async decode(): Promise<void> {
    const ready = this.rows.filter((row) => row.job !== null && !this.isPrefilling(row))
    if (ready.length > 0) await this.run(ready.map((row) => ({ row, length: 1 })))
  }

  private async run(chunks: readonly { row: CacheRow; length: number }[]): Promise<void> {
    const inputs = chunks.map(({ row, length }): DecodeRow => {
      const job = row.job
      const from = row.cached.length
      const to = from + length
      const work = job?.work
      const logits =
        !job || !work
          ? 0
          : work.kind === 'score'
            ? Math.max(0, to - Math.max(from, work.firstLogits))
            : to === job.ids.length
              ? 1
              : 0
      return { row: row.index, keep: from, ids: job?.ids.slice(from, to) ?? [], slot: row.slot, logits }
    })
    const jobs = chunks.map(({ row }) => row.job)
    let outputs: Float32Array[]
    try {
      outputs = await this.decoder.step(inputs)
    } catch (error) {
      for (const { row } of chunks) {
        if (row.job) this.fail(row.job.key, error)
        row.cached = []
        this.free(row)
      }
      return
    }
    for (const [i, { row, length }] of chunks.entries()) {
      const job = row.job
      const logits = outputs[i]
      // The request was aborted during the step; the row may already have another one.
      if (!job || job !== jobs[i] || !logits) {
        row.cached = []
        continue
      }
      row.cached.push(...job.ids.slice(row.cached.length, row.cached.length + length))
      try {
        this.consume(row, job, logits)
      } catch (error) {
        this.fail(job.key, error)
        row.cached = []
        this.free(row)
      }
    }
  }

  private consume(row: CacheRow, job: Job, logits: Float32Array): void {
    const { work } = job
    if (work.kind === 'score') {
      if (logits.length > 0)
        work.scoring.add(logits, row.cached.length - logits.length / this.decoder.vocabulary, this.decoder.vocabulary)
      if (row.cached.length < job.ids.length) return
      this.events.push({ key: job.key, type: 'score', scores: work.scoring.scores() })
      return this.free(row)
    }
    if (logits.length === 0) return
    const { token, end } = work.generation.next(logits, this.decoder.contextLength - job.ids.length)
    job.ids.push(token.id)
    this.report(job.key, token, end)
    if (end) this.free(row)
  }

  /** Merges the tokens of one key and step into one event. */
  private report(
    key: number,
    token: ReturnType<Generation['next']>['token'],
    end: ReturnType<Generation['next']>['end'],
  ): void {
    const last = this.events.find((event) => event.key === key)
    if (last?.type === 'pieces') {
      last.tokens.push(token)
      last.end = end
    } else this.events.push({ key, type: 'pieces', tokens: [token], end })
  }
}
