/**
 * What the rest of Instar may know of a model: plain arrays in, plain arrays out. TensorFlow.js, ONNX
 * and worker threads stay behind these types.
 *
 * Shapes: B rows of a batch, T tokens of a row, V vocabulary. Log-probs are natural logarithms.
 * An adapter is named by the sha256 (hex) of its `adapter_model.safetensors`; `null` is the base model.
 */

import type { Constraint } from '@instar/grammar'

export type { Constraint }

export type AdapterSha = string | null

/** PEFT layout: the two files that vLLM, SGLang and PEFT load as they are. `sha256` is of `weights`. */
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
 * Changes of the distribution that a token is drawn from, beside temperature and filters; log-probs are those behind them.
 * `frequencyPenalty`, `presencePenalty` and `repetitionPenalty` 0, 0 and 1, and `minP` 0, change nothing.
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
  /** Requests of one session go to one replica while it answers, whose prefix cache holds what came before. */
  session?: string
  /** What the answer must be; the log-probs are then those of the distribution among what may come next. */
  constraint?: Constraint
  /** The answer is then not drawn from the policy's own distribution. */
  reweighting?: Reweighting
  /** For engines that take messages, not ids (`Capabilities.chat`); `prompt` is then empty. */
  chat?: ChatRequest
}

/**
 * In the shapes of Chat Completions. `stream` false: nobody sees a part of the answer, so that it may come in one piece.
 * `fields`: what else the client said, by the names of that interface.
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

/** As an engine counts them; the last three, where it says, are part of the first two. */
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
  /** Takes messages and gives text: `GenerateRequest.chat` is what it answers to. */
  chat?: boolean
  /** What it is said to take beside texts. */
  accepts?: readonly ('images' | 'files')[]
}

/** `top`: in the order of their log-probs, which are rounded as `logprobs` are; a list for each token. */
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
  /** Rejects with `bad_request` for a constraint that it cannot follow; without it there is none that it can. */
  check?(constraint: Constraint): Promise<void>
  /** Log-probs at `temperature` of given tokens under a prompt, one per completion token. */
  score(request: {
    prompt: readonly number[]
    completion: readonly number[]
    adapter: AdapterSha
    temperature: number
  }): Promise<Float32Array>
  /** The same at `temperature`, and of each place the `topLogprobs` likeliest tokens; without it the engine cannot say them. */
  scoreWithTop?(request: {
    prompt: readonly number[]
    completion: readonly number[]
    adapter: AdapterSha
    temperature: number
    topLogprobs: number
  }): Promise<Scores>
  /** A request of OpenAI's `/v1/embeddings`, of which `bodyFor` makes the body by the model's name there. Without it the engine has none. */
  embed?(bodyFor: (served: string) => Readonly<Record<string, unknown>>, signal?: AbortSignal): Promise<unknown>
  pending(): Load
  /** Why nothing can be answered now, while an engine that comes back by itself is away; null while it can. */
  lost?(): string | null
  close(): Promise<void>
}

/** One turn of a batch, as the loss sees it. */
export type TrainItem = {
  prompt: readonly number[]
  completion: readonly number[]
  /** Recorded when the tokens were drawn; never recomputed. */
  behaviourLogprobs: readonly number[]
  temperature: number
  advantage: number
  /** The prompt with the hint in it; the teacher scores the same completion under it. Null: no OPD term. */
  hintPrompt: readonly number[] | null
}

/** Every constant of one update; recorded in `BatchSealed`. Meanings and sources: loss.ts, step.ts. */
export type StepSettings = {
  /** Of the batch: the first A of a line's LoRA comes from it. */
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
  score(request: {
    prompt: readonly number[]
    completion: readonly number[]
    adapter: AdapterSha
    temperature: number
  }): Promise<Float32Array>
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
