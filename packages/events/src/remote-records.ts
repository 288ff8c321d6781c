/** The records of adapters that are made elsewhere: of an update on a Tinker server, of an import. Reexported in records.ts. */

/**
 * A request to a model of a Tinker server. `kind`: `forward`, `forward_backward`, `optim_step`, `load_weights`,
 * `save_weights`, `save_weights_for_sampler`. `of`: the model that is trained, or the reference. `sha256` is of its
 * bytes, `response` of those of the response; null: not sent yet, or made by an earlier send whose response was lost.
 */
export type SentRequest = {
  kind: string
  of: 'trained' | 'reference'
  seq: number
  sha256: string
  response: string | null
}
/** A blob on the log. */
export type StoredBlob = { sha256: string; bytes: number }
/** `tokens`: of the answer. */
export type ScoredRow = { turn: string; tokens: number }

/**
 * How the update was computed and its adapter fetched. `statePath`, `adapterPath`: addresses on the server of weights with
 * optimizer, and of the adapter. `archive`, `tensors`, `config`: sha256 of what the server sent, of the tensors by name, dtype,
 * shape and bytes, and of the adapter's config, written anew from the tensors. `logprobs`: of the batch's answers under the
 * new adapter at temperature 1, float32, `rows` one after another, appended at `logprobsAt`.
 */
export type RemoteUpdate = {
  bound: string
  model: string
  statePath: string
  adapterPath: string
  requests: SentRequest[]
  archive: string
  tensors: string
  tensorCount: number
  config: string
  rows: ScoredRow[]
  logprobs: StoredBlob
  logprobsAt: number
  /** Of the same rows under the base model, appended at `baseAt`. */
  baseLogprobs: StoredBlob
  baseAt: number
}

/**
 * A trainer has taken up a line on a Tinker server. `epoch` counts these records of the line: of two trainers the one with the
 * older epoch stops. `capabilities`: what the probe found, as JSON (packages/tinker). `model` is trained; its weights are
 * those of `parent`, loaded from `statePath` (null: a new LoRA). `reference` is never trained, so it equals the base model.
 */
export type TrainerBound = {
  type: 'TrainerBound'
  prev: string
  policy: string
  epoch: number
  /** A random id of the process. */
  trainer: string
  url: string
  capabilities: string
  base: { name: string; sha256: string }
  /** The name of the base model on the server. */
  baseModel: string
  session: string
  model: string
  reference: string
  parent: { version: number; adapter: string | null; state: string | null }
  statePath: string | null
  rank: number
  seed: number
  at: number
}

/**
 * Log-probabilities at temperature 1, float32 blobs with the answers of `rows` one after another: of the trained model after
 * `pass` optimizer steps and, in pass 0, of the base without the hint and with it (rows with a hint only); null: not used.
 * `requests`: those of the step before, as recorded in its UpdateRequested, and the forwards, with their responses.
 * `dropped`: items that cannot be trained on.
 */
export type TrainerScored = {
  type: 'TrainerScored'
  prev: string
  policy: string
  batch: string
  number: number
  bound: string
  model: string
  pass: number
  requests: SentRequest[]
  rows: ScoredRow[]
  dropped: { turn: string; reason: string }[]
  logprobs: StoredBlob
  base: StoredBlob | null
  teacher: StoredBlob | null
  blobsAt: number
  figures: Record<string, number>
  at: number
}

/** The requests of the step after `pass`, none of which has been sent before this record is on the log. */
export type UpdateRequested = {
  type: 'UpdateRequested'
  prev: string
  policy: string
  batch: string
  number: number
  bound: string
  model: string
  pass: number
  requests: SentRequest[]
  figures: Record<string, number>
  at: number
}

/**
 * A LoRA adapter that was trained elsewhere and read from a folder of PEFT. `adapter`: sha256 of the weights file on the log,
 * whose tensors are the folder's; `tensors`: their digest by name, dtype, shape and bytes; `config`: sha256 of
 * adapter_config.json, written anew from them. `baseModel`: what the folder names as its base; `source`: the folder's name.
 */
export type ImportedAdapter = {
  adapter: string
  adapterBytes: number
  tensors: string
  tensorCount: number
  config: string
  rank: number
  alpha: number
  targets: string[]
  baseModel: string
  source: string
}
