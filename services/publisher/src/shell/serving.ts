/** Compares the log-probs of the servers that answer requests with the trainer's, on answers of the candidate's batch. */
import { InstarError, type BatchSealed, type Settings, type UpdateComputed } from '@instar/events'
import { getBlob, ifReadable, type EventLog, type TurnReader } from '@instar/log'
import type { Adapter, AdapterSha, Evaluator } from '@instar/engine/port'
import type { PublisherConfig } from '../config.ts'
import { differencesOf, servingFigures, type Pair } from '../core/serving-agreement.ts'

/** Answers of the batch that are compared, and tokens of each. */
const ROWS = 8
const TOKENS = 32
/** Attempts to load a candidate that a server refuses. */
const LOADS = 3

/** `candidate`, `base`: the trainer's log-probs of `completion` at temperature 1; `base` null: not known. */
export type TrainedRow = {
  prompt: readonly number[]
  completion: readonly number[]
  candidate: ArrayLike<number>
  base: ArrayLike<number> | null
}

export type TrainedCandidate = { adapter: Adapter; computed: UpdateComputed; sealed: BatchSealed; reader: TurnReader }
/** Null: the trainer's log-probs are not known. */
export type TrainedRows = (candidate: TrainedCandidate) => Promise<readonly TrainedRow[] | null>

/** Prompt and completion of a turn; null if it cannot be read. */
const answerOf = (reader: TurnReader, turn: string): Promise<[number[], number[]] | null> =>
  ifReadable(async () => [[...(await reader.promptIds(turn))], (await reader.record(turn)).ids])

/** The first answers of the batch that can be read, as prompt and completion. */
const answersOf = async (reader: TurnReader, sealed: BatchSealed): Promise<[number[], number[]][]> => {
  const found: [number[], number[]][] = []
  for (const { turn } of sealed.items) {
    if (found.length >= ROWS) break
    const [prompt, ids = []] = (await answerOf(reader, turn)) ?? []
    if (prompt && ids.length > 0) found.push([prompt, ids.slice(0, TOKENS)])
  }
  return found
}

/** Of an embedded trainer, whose engine scores the tokens. `open`: called when it is needed, each time. */
export const rowsOfLearner =
  (open: () => Promise<Pick<Evaluator, 'load' | 'unload' | 'score'>>): TrainedRows =>
  async ({ adapter, sealed, reader }) => {
    const learner = await open()
    await learner.load(adapter)
    try {
      const rows: TrainedRow[] = []
      for (const [prompt, completion] of await answersOf(reader, sealed)) {
        const score = (of: AdapterSha): Promise<Float32Array> =>
          learner.score({ prompt, completion, adapter: of, temperature: 1 })
        rows.push({ prompt, completion, candidate: await score(adapter.sha256), base: await score(null) })
      }
      return rows
    } finally {
      await learner.unload(adapter.sha256)
    }
  }

/** Of an update on a training server, from its records. Null for one of the embedded trainer. */
export const rowsOfRecords =
  (log: EventLog): TrainedRows =>
  async ({ computed: { remote }, reader }) => {
    if (!remote) return null
    const [candidate, base] = await Promise.all([
      getBlob(log, remote.logprobs.sha256, remote.logprobsAt),
      getBlob(log, remote.baseLogprobs.sha256, remote.baseAt),
    ])
    const rows: TrainedRow[] = []
    let first = 0
    for (const { turn, tokens } of remote.rows.slice(0, ROWS)) {
      const count = Math.min(tokens, TOKENS)
      const [prompt, completion] = (await answerOf(reader, turn)) ?? []
      if (prompt && completion)
        rows.push({
          prompt,
          completion: completion.slice(0, count),
          candidate: floatsOf(candidate, first, count),
          base: floatsOf(base, first, count),
        })
      first += tokens
    }
    return rows
  }

/** `count` little-endian float32 from the `first` on. */
const floatsOf = (bytes: Uint8Array, first: number, count: number): Float32Array => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return Float32Array.from({ length: count }, (_, at) => view.getFloat32(4 * (first + at), true))
}

/** Loads the candidate. Throws `serving_differs` if a server refuses it `LOADS` times, else as `Evaluator.load`. */
export const loadCandidate = async (evaluator: Evaluator, adapter: Adapter): Promise<void> => {
  for (let tries = 1; ; tries += 1) {
    try {
      return await evaluator.load(adapter)
    } catch (error) {
      if (!(error instanceof InstarError) || error.code !== 'adapter_refused') throw error
      if (tries >= LOADS) throw new InstarError('serving_differs', error.message, {}, { cause: error })
    }
  }
}

/** No figures where what measures answers no requests, or the trainer's log-probs are not known. */
export const compareServing = async (
  ports: { evaluator: Evaluator; trained?: TrainedRows | undefined; logLine?: ((line: string) => void) | undefined },
  { remote }: Pick<PublisherConfig, 'remote'>,
  candidate: TrainedCandidate,
): Promise<Settings> => {
  const { evaluator, trained } = ports
  const rows = evaluator.scoreOnEach ? ((await trained?.(candidate)) ?? []) : []
  if (rows.length === 0) return {}
  const { sha256 } = candidate.adapter
  const pairs = new Map<string, { candidate: Pair[]; base: Pair[] }>()
  for (const { prompt, completion, ...trainer } of rows)
    for (const which of ['candidate', 'base'] as const) {
      const known = trainer[which]
      if (known === null) continue
      const request = { prompt, completion, adapter: which === 'base' ? null : sha256, temperature: 1 }
      for (const { server, logprobs } of await evaluator.scoreOnEach!(request)) {
        const own = pairs.get(server) ?? { candidate: [], base: [] }
        own[which].push({ trainer: known, server: logprobs })
        pairs.set(server, own)
      }
    }
  const figures = servingFigures([...pairs.values()], remote.tolerance)
  const { serving_limit: limit = 0, serving_mean_limit: meanLimit = 0 } = figures
  for (const [server, own] of pairs) {
    const { largest, mean } = differencesOf(own)
    if (largest > limit || mean > meanLimit)
      ports.logLine?.(
        `WARNING: serving_differs: log-probs of ${server} differ from the trainer's by up to ${largest.toPrecision(2)} nats, ` +
          `${mean.toPrecision(2)} on average (limits ${limit.toPrecision(2)} and ${meanLimit.toPrecision(2)})`,
      )
  }
  return figures
}
