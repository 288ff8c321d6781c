/**
 * The interface of engines: plain arrays in, plain arrays out. TensorFlow.js, ONNX, HTTP and worker threads are details
 * of the implementations (packages/policy, src/remote). Types only: a core may import them.
 *
 * Shapes: B rows of a batch, T tokens of a row, V vocabulary. Log-probs are natural logarithms.
 * An adapter is named by the sha256 (hex) of its `adapter_model.safetensors`; `null` is the base model.
 */

import type { Constraint } from '@instar/grammar'

export type { Constraint }

export type AdapterSha = string | null

/** The two files of a PEFT adapter, as vLLM and SGLang load them. `sha256` is of `weights`. */
export type Adapter = { sha256: string; weights: Uint8Array; config: Uint8Array }

/** `temperature` 0 is greedy. `topP` 1 and `topK` 0 switch those filters off. `maxTokens` counts new tokens. */
export type Sampling = {
  temperature: number
  topP: number
  topK: number
  seed: number
  maxTokens: number
  stop: readonly string[]
}

/**
 * Changes of the sampled distribution besides temperature and filters; log-probs include them. Neutral values:
 * `frequencyPenalty`, `presencePenalty` and `minP` 0, `repetitionPenalty` 1.
 */
export type Reweighting = {
  frequencyPenalty: number
  presencePenalty: number
  repetitionPenalty: number
  minP: number
  logitBias: readonly (readonly [id: number, bias: number])[]
}

export type GenerateRequest = {
  prompt: readonly number[]
  sampling: Sampling
  adapter: AdapterSha
  /** How many alternatives to report for each token (OpenAI `top_logprobs`), 0 for none. */
  topLogprobs: number
  /** Requests of one session go to the same replica while it is up, for its prefix cache. */
  session?: string
  /** What the answer must match; log-probs are then those of the masked distribution. */
  constraint?: Constraint
  /** The answer is then not sampled from the policy's own distribution. */
  reweighting?: Reweighting
  /** For engines that take messages instead of ids (`Capabilities.chat`); `prompt` is then empty. */
  chat?: ChatRequest
}

/**
 * In the shapes of Chat Completions. `stream` false: the answer may come in one piece. `fields`: the other fields of the
 * client's request, by their names in Chat Completions.
 */
export type ChatRequest = {
  stream: boolean
  messages: readonly ChatMessage[]
  tools: readonly unknown[]
  fields: Readonly<Record<string, unknown>>
}

/**
 * One sampled token. `logprob` is the log-probability with which it was drawn: of the distribution
 * after temperature, top-k and top-p, renormalised; greedy tokens have that of temperature 1.
 * `text` is what may be shown now: it may be empty while a UTF-8 sequence or a possible stop string is
 * still open, and it never holds a stop string or what follows it.
 */
export type GeneratedToken = {
  id: number
  logprob: number
  text: string
  top: readonly { id: number; logprob: number }[]
}

/** `stop`: end-of-turn token or stop string; `length`: maxTokens or the context is full. */
export type FinishReason = 'stop' | 'length'

/**
 * The last piece carries the reason; text still held back comes in `text` of the same piece. `text` pieces come
 * from engines that did not say which tokens they are. `inexact`: why the tokens of this answer are not the ones
 * that were sampled, or not all of them, in a word; absent where they are. `counts`: as the engine says.
 */
export type GeneratedPiece =
  | { type: 'tokens'; tokens: GeneratedToken[] }
  | { type: 'text'; text: string }
  | { type: 'end'; reason: FinishReason; text: string; inexact?: string; counts?: TokenCounts }

/**
 * Numbers of tokens. `cachedTokens` and `cacheWriteTokens` are included in `promptTokens`, `reasoningTokens` in
 * `completionTokens`; all three are set only if the engine reports them.
 */
export type TokenCounts = {
  promptTokens: number
  completionTokens: number
  cachedTokens?: number
  cacheWriteTokens?: number
  reasoningTokens?: number
}

export type Capabilities = {
  engine: string
  fingerprint: string
  contextLength: number
  vocabulary: number
  tokenExact: boolean
  logprobs: boolean
  maxBatch: number
  /** Messages in, text out: requests need `chat`. */
  chat?: boolean
  /** Content besides text that the engine accepts, by configuration. */
  accepts?: readonly ('images' | 'files')[]
}

/** Asks for the log-probs of `completion` after `prompt`. */
export type ScoreRequest = {
  prompt: readonly number[]
  completion: readonly number[]
  adapter: AdapterSha
  temperature: number
}

/** `top`: one list per token, most likely first, rounded as `logprobs` are. */
export type Scores = { logprobs: Float32Array; top: (readonly { id: number; logprob: number }[])[] }

export type Load = { running: number; waiting: number }

/**
 * The serving side: continuous batching, rows of one batch may be on different adapters.
 * `generate` keeps the adapter that it began with. Errors are InstarError (packages/events/src/errors.ts).
 */
export interface ServingEngine {
  capabilities(): Capabilities
  load(adapter: Adapter): Promise<void>
  unload(sha256: string): Promise<void>
  generate(request: GenerateRequest, signal?: AbortSignal): AsyncIterable<GeneratedPiece>
  /** Rejects with `bad_request` for a constraint that it does not support. Absent: constraints are not supported. */
  check?(constraint: Constraint): Promise<void>
  /** Log-probs at `temperature` of given tokens under a prompt, one per completion token. */
  score(request: ScoreRequest, signal?: AbortSignal): Promise<Float32Array>
  /** As `score`, with the `topLogprobs` most likely tokens of each position. Absent: not supported. */
  scoreWithTop?(request: ScoreRequest & { topLogprobs: number }, signal?: AbortSignal): Promise<Scores>
  /** OpenAI's `/v1/embeddings`; `bodyFor` makes the body for the model's name at the engine. Absent: not supported. */
  embed?(bodyFor: (served: string) => Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<unknown>
  pending(): Load
  /** Why the engine cannot answer at present; null while it can. Absent: the engine cannot become unreachable. */
  lost?(): string | null
  close(): Promise<void>
}

/** One turn of a batch, as the loss sees it. */
export type TrainItem = {
  prompt: readonly number[]
  completion: readonly number[]
  /** Recorded when the tokens were sampled; never recomputed. */
  behaviourLogprobs: readonly number[]
  temperature: number
  advantage: number
  /** The prompt with the hint in it; the teacher scores the same completion under it. Null: no OPD term. */
  hintPrompt: readonly number[] | null
}

/** Every constant of one update; recorded in `BatchSealed`. Meanings and sources: loss.ts, step.ts. */
export type StepSettings = {
  /** Of the batch; also initialises the A matrices of a new LoRA. */
  seed: number
  rank: number
  alpha: number
  learningRate: number
  epochs: number
  beta1: number
  beta2: number
  maxGradNorm: number
  clipLow: number
  clipHigh: number
  /** Token importance weights exp(p_old - q) are truncated here. */
  tisCap: number
  /** A turn whose geometric mean ratio leaves [1/x, x] is masked out. */
  sequenceMask: number
  opdWeight: number
  klWeight: number
  /** KL weight is scaled by min(1, mean|advantage| / this). */
  klFullAtAdvantage: number
  microBatchTokens: number
  /** A turn weighs at most as much as this many median turns of its batch, by tokens; absent: no limit. */
  turnFactor?: number
  /** 1: the OPD term is scaled by hinted turns / turns of the batch; absent: it is a mean over the hinted alone. */
  opdOverBatch?: number
  /** Bounds of trust-region.ts, nats per token; absent: none. */
  klParentMax?: number
  klBaseMax?: number
}

export type StepFigures = {
  loss: number
  policyLoss: number
  opdLoss: number
  klLoss: number
  gradNorm: number
  meanAdvantage: number
  meanAbsAdvantage: number
  clipFraction: number
  maskedTurns: number
  /** mean |p_old - q|: how far the learner's log-probs are from the recorded ones. */
  behaviourGap: number
  tokens: number
  steps: number
  droppedHints: number
  /** Of trust-region.ts; absent where the settings have no bound. Divergences in nats per token. */
  stepScale?: number
  baseScale?: number
  klParent?: number
  klBase?: number
}

/** What must be equal for a recomputation to be bit-equal. */
export type Fingerprint = { engine: string; build: string; isa: string; threads: number; base: string }

/** `state` is the optimizer (Adam moments, step count) in safetensors; null at the start of a line. */
export type Parent = { adapter: Adapter | null; state: Uint8Array | null }

export type StepResult = {
  adapter: Adapter
  state: Uint8Array
  stateSha256: string
  figures: StepFigures
  fingerprint: Fingerprint
}

/** Samples and figures of one adapter on fixed prompts, against others on the candidate's own samples. */
export type EvaluateRequest = {
  prompts: readonly (readonly number[])[]
  adapter: AdapterSha
  /** Full-vocabulary KL(adapter || reference) per sampled token, one mean for each reference. */
  references: readonly AdapterSha[]
  sampling: Sampling
}
export type Evaluation = {
  completions: { ids: number[]; text: string; reason: FinishReason }[]
  kl: number[]
  /** Mean entropy per token in nats, mean length in tokens, share of repeated 4-grams. */
  entropy: number
  length: number
  repetition: number
}

/** The learning side: one adapter line at a time, in a worker of its own; deterministic for one fingerprint. */
export interface LearningEngine {
  fingerprint(): Fingerprint
  load(adapter: Adapter): Promise<void>
  unload(sha256: string): Promise<void>
  step(items: readonly TrainItem[], settings: StepSettings, parent: Parent): Promise<StepResult>
  evaluate(request: EvaluateRequest): Promise<Evaluation>
  score(request: ScoreRequest): Promise<Float32Array>
  close(): Promise<void>
}

/**
 * A chat message as the templates take it (OpenAI shape; unknown keys pass through). An assistant message may
 * carry `token_ids`, the ids as they were sampled: the prompt holds them as they are, in place of content,
 * reasoning and tool calls, and a last end-of-turn id is left to the template.
 */
export type ChatMessage = { role: string; content: unknown; [key: string]: unknown }

/** The light part of a model folder: no weights, safe on the main thread. */
export interface Model {
  name: string
  /** sha256 over config, tokenizer, template and weights; of a GGUF file over its name, too. */
  sha256: string
  /** What `sha256` was while its GGUF file had another name. */
  sha256Named?(name: string): string
  contextLength: number
  vocabulary: number
  /**
   * UTF-16 units of the longest text that one token stands for: a text has no fewer tokens than its
   * length over this. Absent: not known.
   */
  longestToken?: number
  defaults: { temperature: number; topP: number; topK: number }
  endOfTurn: readonly number[]
  /** Its tokenizer has a token `<think>`, so that it may think before it answers. */
  thinks?: boolean
  encode(text: string): number[]
  decode(ids: readonly number[]): string
  /** Of one answer, id by id; all that it gives out is `decode` of all ids. */
  detokenizer(): { push(id: number): string; end(): string }
  render(
    messages: readonly ChatMessage[],
    options: { tools?: readonly unknown[]; addGenerationPrompt: boolean; now?: number },
  ): string
  /**
   * render + encode with the template's control tokens recognised and the content's not. `now` (milliseconds since
   * 1970) is for templates that write the date; without it they take their fallback.
   */
  promptIds(messages: readonly ChatMessage[], options: { tools?: readonly unknown[]; now?: number }): number[]
}
