/** Checkpoints of the server: whether one is written, their list, deletion. */
import { InstarError } from '@instar/events/errors'
import { isJsonObject, parseJsonObject } from '@instar/events/json'
import { backOffMs } from '../core/polling.ts'
import { parsePath, type CheckpointKind } from '../core/paths.ts'
import { refusal } from '../core/refusals.ts'
import type { Futures } from './futures.ts'
import type { TinkerHttp } from './http.ts'
import { wait } from './wait.ts'

export type Checkpoint = { path: string; kind: 'weights' | 'sampler_weights' }

/** A list longer than this is refused: names are used once, and old checkpoints are deleted. */
const CHECKPOINTS_MAX = 10_000

export class Checkpoints {
  readonly #http: TinkerHttp
  readonly #futures: Futures
  readonly #patienceMs: number

  /** `patienceMs`: how long a checkpoint may take to be written. */
  constructor(http: TinkerHttp, futures: Futures, patienceMs: number) {
    this.#http = http
    this.#futures = futures
    this.#patienceMs = patienceMs
  }

  async list(model: string, signal?: AbortSignal): Promise<Checkpoint[]> {
    const what = `the checkpoints of ${model}`
    const path = `/api/v1/training_runs/${encodeURIComponent(model)}/checkpoints`
    const response = await this.#futures.ask(what, { method: 'GET', path }, signal)
    const text = this.#http.textOf(response)
    if (response.status === 404) return []
    if (response.status !== 200) throw refusal(this.#http.url, what, response.status, text)
    const entries = parseJsonObject(text)?.['checkpoints']
    if (!Array.isArray(entries) || entries.length > CHECKPOINTS_MAX)
      throw new InstarError('trainer_mismatch', `${this.#http.url} gives no list of the checkpoints of ${model}`)
    return entries.flatMap((entry: unknown) => {
      const tinkerPath = isJsonObject(entry) ? entry['tinker_path'] : null
      if (!isJsonObject(entry) || typeof tinkerPath !== 'string') return []
      const kind = entry['checkpoint_type'] === 'training' ? 'weights' : 'sampler_weights'
      return [{ path: tinkerPath, kind } as const]
    })
  }

  /** Awaits that a checkpoint whose save was handed in is listed, and gives its address. */
  async written(model: string, kind: Checkpoint['kind'], name: string, signal?: AbortSignal): Promise<string> {
    const until = performance.now() + this.#patienceMs
    for (let attempt = 0; ; attempt++) {
      const found = (await this.list(model, signal)).find(
        (one) => one.kind === kind && parsePath(one.path).name === name,
      )
      if (found) return found.path
      const waitMs = backOffMs(attempt)
      if (performance.now() + waitMs > until)
        throw new InstarError('trainer_lost', `${this.#http.url} has not written ${kind}/${name} of ${model}`)
      await wait(waitMs, signal)
    }
  }

  async delete(path: string, signal?: AbortSignal): Promise<void> {
    const { run, kind, name } = parsePath(path)
    const typed: CheckpointKind = kind ?? 'sampler_weights'
    const response = await this.#futures.ask(
      `the deletion of ${path}`,
      { method: 'DELETE', path: `/api/v1/training_runs/${run}/checkpoints/${typed}/${name}` },
      signal,
    )
    if (response.status === 404 || (response.status >= 200 && response.status < 300)) return
    throw refusal(this.#http.url, `the deletion of ${path}`, response.status, this.#http.textOf(response))
  }
}
