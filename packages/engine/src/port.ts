/**
 * The interface of engines: plain arrays in, plain arrays out. TensorFlow.js, ONNX, HTTP and worker threads are details
 * of the implementations (packages/policy, src/remote). Types only, so pure modules (core/) may import them.
 *
 * Shapes: B rows of a batch, T tokens of a row, V vocabulary. Log-probs are natural logarithms.
 * An adapter is named by the sha256 (hex) of its `adapter_model.safetensors`; `null` is the base model.
 */

import type { Constraint } from '@instar/grammar'

export type { Constraint }

export type AdapterSha = string | null

/**
 * The two files of a PEFT adapter, as vLLM and SGLang load them: `weights` is `adapter_model.safetensors`, `config` is
 * `adapter_config.json`. `sha256` is of `weights`.
 */
export type Adapter = { sha256: string; weights: Uint8Array; config: Uint8Array }

/** `temperature` 0 is greedy. `topP` 1 and `topK` 0 disable those filters. `maxTokens` counts generated tokens. */
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
  /** Number of alternatives to report for each token (OpenAI `top_logprobs`); 0 for none. */
  topLogprobs: number
  /** Requests of one session go to the same replica while it is up, for its prefix cache. */
  session?: string
  /** The answer matches it; log-probs are then those of the masked distribution. */
  constraint?: Constraint
  /** If set, the answer is not sampled from the policy's own distribution. */
  reweighting?: Reweighting
  /** For engines that take messages instead of ids (`Capabilities.chat`); `prompt` is then empty. */
  chat?: ChatRequest
  hold?: Hold
}

/**
 * In the shapes of OpenAI's Chat Completions. `stream` false: the answer may be one piece. `fields`: the other fields
 * of the client's request, by their names in Chat Completions.
 */
export type ChatRequest = {
  stream: boolean
  messages: readonly ChatMessage[]
  tools: readonly unknown[]
  fields: Readonly<Record<string, unknown>>
}

/**
 * Counts the memory of an engine's response that is being read, in bytes; a negative number is given back. Its error ends the
 * request.
 */
export type Hold = (bytes: number) => void

/**
 * One sampled token. `logprob` is the log-probability with which it was drawn: of the distribution
 * after temperature, top-k and top-p, renormalised; greedy tokens have that of temperature 1.
 * `text` is the text that can be sent now. It is empty while a UTF-8 sequence or a possible stop string is
 * incomplete, and never contains a stop string or text after one.
 */
export type GeneratedToken = {
  id: number
  logprob: number
  text: string
  top: readonly { id: number; logprob: number }[]
  /** The engine gave no log-probability; `logprob` is 0 then. */
  unreported?: true
}

/** `stop`: end-of-turn token or stop string; `length`: `maxTokens` is reached or the context is full. */
export type FinishReason = 'stop' | 'length'

/**
 * A part of a streamed answer. `tokens`: sampled tokens. `text`: text whose token ids the engine did not report. `end`:
 * the last piece, with the remaining buffered text. `inexact`: the reason code if the reported tokens are not exactly
 * the sampled ones; absent if they are. `counts`: as the engine reports them.
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
  /** The engine takes messages and returns text: requests need `chat`. */
  chat?: boolean
  /** Content besides text that the engine accepts, by configuration. */
  accepts?: readonly ('images' | 'files')[]
}

/** The log-probs of `completion` after `prompt`. */
export type ScoreRequest = {
  prompt: readonly number[]
  completion: readonly number[]
  adapter: AdapterSha
  temperature: number
  hold?: Hold
}

/**
 * `logprobs`: [T], one per completion token. `top`: one list per token, most likely first, rounded as `logprobs` are.
 */
export type Scores = { logprobs: Float32Array; top: (readonly { id: number; logprob: number }[])[] }

/** Numbers of requests. */
export type Load = { running: number; waiting: number }

/**
 * Serves requests with continuous batching; rows of one batch may use different adapters. A request uses one adapter
 * from begin to end. Errors are InstarError (packages/events/src/errors.ts).
 */
export interface ServingEngine {
  capabilities(): Capabilities
  load(adapter: Adapter): Promise<void>
  unload(sha256: string): Promise<void>
  generate(request: GenerateRequest, signal?: AbortSignal): AsyncIterable<GeneratedPiece>
  /**
   * Rejects with `bad_request` for a constraint that the engine does not support. Absent: constraints are not
   * supported.
   */
  check?(constraint: Constraint): Promise<void>
  /** Log-probs at `temperature` of given tokens under a prompt, one per completion token. */
  score(request: ScoreRequest, signal?: AbortSignal): Promise<Float32Array>
  /** As `score`, with the `topLogprobs` most likely tokens of each position. Absent: not supported. */
  scoreWithTop?(request: ScoreRequest & { topLogprobs: number }, signal?: AbortSignal): Promise<Scores>
  /**
   * OpenAI's `/v1/embeddings`; `bodyFor` makes the body for the model's name at the engine. The response is JSON as it came,
   * which `hold` counts and which is not given back. Absent: not supported.
   */
  embed?(
    bodyFor: (served: string) => Readonly<Record<string, unknown>>,
    signal?: AbortSignal,
    hold?: Hold,
  ): Promise<Uint8Array>
  pending(): Load
  /** The reason why the engine cannot answer; null while it can. Absent: the engine cannot become unreachable. */
  lost?(): string | null
  close(): Promise<void>
}

/** One turn of a training batch. */
export type TrainItem = {
  prompt: readonly number[]
  completion: readonly number[]
  /** Recorded when the tokens were sampled; never recomputed. */
  behaviourLogprobs: readonly number[]
  temperature: number
  advantage: number
  /** Whom the turn counts for under `weightShare`; absent: nobody. `key` null: without API keys. */
  subject?: string
  key?: string | null
  /** The prompt with the hint; the teacher scores the same completion after it. Null: no distillation (OPD) term. */
  hintPrompt: readonly number[] | null
  /**
   * A row of rehearsal: no turn of the batch but a general prompt with the base's own answer. It enters the loss by
   * `rehearsalWeight` alone.
   */
  rehearsal?: true
}

/**
 * All constants of one update; recorded in `BatchSealed`. Definitions and sources: loss.ts, step.ts of packages/policy.
 */
export type StepSettings = {
  /** Seed of the batch; also initialises the A matrices of a new LoRA. */
  seed: number
  rank: number
  alpha: number
  learningRate: number
  epochs: number
  /** Adam steps of an epoch, each on a part of the batch; absent: 1, at most one per micro-batch. */
  miniBatches?: number
  beta1: number
  beta2: number
  /** Added to the root of Adam's second moment; absent: 1e-8. */
  adamEpsilon?: number
  maxGradNorm: number
  clipLow: number
  clipHigh: number
  /** Maximum of the truncated token importance weights exp(p_old - q). */
  tisCap: number
  /** A turn whose geometric mean ratio is outside [1/x, x] is masked. */
  sequenceMask: number
  opdWeight: number
  /**
   * Part of the distillation that is forward KL (loss.ts), 0…1; absent: 0, the reverse KL alone. Without effect under
   * `sampledTokens`.
   */
  opdForward?: number
  /**
   * The teacher is the softmax of base + opdContrast · (base with the hint − base), of log-probabilities; absent: 1, the base with the
   * hint. Under `sampledTokens` without its normaliser (sampled-loss.ts).
   */
  opdContrast?: number
  /**
   * Weight of the KL to the base on the answers of rows of rehearsal, a mean over their tokens, in the direction of
   * `opdForward`; absent or 0: none.
   */
  rehearsalWeight?: number
  klWeight: number
  /** The KL weight is scaled by min(1, mean |advantage| / klFullAtAdvantage). */
  klFullAtAdvantage: number
  microBatchTokens: number
  /** Tokens of prompt and completion of an item at most; absent or 0: the context of the model. */
  turnTokensMax?: number
  /**
   * Bytes of the reference distributions of a batch: 4 · vocabulary, or 8 · referenceTopK + 4, for each response token with
   * a KL to the base, and as many for each hinted one. A batch beyond it computes them for each micro-batch. Absent:
   * 128 MiB.
   */
  referenceBytes?: number
  /**
   * Tokens of a reference distribution that are kept, all others as one bucket (references.ts of packages/policy); absent,
   * 0 or at least the vocabulary: the whole distribution.
   */
  referenceTopK?: number
  /** Maximum weight of a turn, as a multiple of the batch's median turn length in tokens; absent: no limit. */
  turnFactor?: number
  /** 1: the OPD term is scaled by hinted turns / turns of the batch; absent: it is the mean over the hinted turns. */
  opdOverBatch?: number
  /**
   * Largest share of a batch's weight of one subject or one API key, or its share of the turns if that is larger; absent
   * or 0: no limit.
   */
  weightShare?: number
  /**
   * 1: the KL terms are estimated from the sampled tokens, at temperature 1 (sampled-loss.ts of packages/policy), as on an
   * engine that reports no distributions; absent or 0: they are those of loss.ts.
   */
  sampledTokens?: number
  /** Of sampled-loss.ts: largest log-ratio of a token in the gradient of a KL term, nats; absent: 2. */
  logRatioMax?: number
  /** Bounds of trust-region.ts, nats per token; absent: none. */
  klParentMax?: number
  klBaseMax?: number
}

/** Tokens of the rows of an update's passes, each row as often as it was computed. */
export type TokenFigures = {
  /** Of forward passes alone, of the policy and of the base. */
  forwardPromptTokens: number
  forwardResponseTokens: number
  /** Of forward passes of the base with the hint in the prompt: prompt and answer. */
  teacherTokens: number
  /** Of passes with gradients. */
  backwardPromptTokens: number
  backwardResponseTokens: number
}

/** The token figures are absent in records of earlier builds. */
export type StepFigures = Partial<TokenFigures> & {
  loss: number
  policyLoss: number
  opdLoss: number
  klLoss: number
  /** Rows of rehearsal and their term of the loss; absent without them. */
  rehearsalRows?: number
  rehearsalLoss?: number
  gradNorm: number
  meanAdvantage: number
  meanAbsAdvantage: number
  clipFraction: number
  maskedTurns: number
  /** mean |p_old - q|: difference of the learner's log-probs and the recorded ones, in nats per token. */
  behaviourGap: number
  tokens: number
  steps: number
  droppedHints: number
  /**
   * Turns whose weight `weightShare` reduced, and the largest shares of the weight that one subject and one key have;
   * absent without that setting.
   */
  cappedTurns?: number
  subjectWeight?: number
  keyWeight?: number
  /**
   * Under `sampledTokens`: turns sampled at a temperature other than 0 and 1, whose importance weight is therefore unknown
   * and taken as 1.
   */
  temperedTurns?: number
  /** Of trust-region.ts; absent if the settings have no bound. Divergences in nats per token. */
  stepScale?: number
  baseScale?: number
  klParent?: number
  klBase?: number
}

/** A recomputation is bit-equal only if all fields are equal. */
export type Fingerprint = { engine: string; build: string; isa: string; threads: number; base: string }

/**
 * The input of a step. `state`: the optimizer (Adam moments, step count) in safetensors; null before the first step. `base`:
 * an adapter of the same rank that is a part of the base, to which KL is measured and which is the teacher; absent: the base
 * is the weights alone.
 */
export type Parent = { adapter: Adapter | null; state: Uint8Array | null; base?: Adapter | null }

export type StepResult = {
  adapter: Adapter
  state: Uint8Array
  stateSha256: string
  figures: StepFigures
  fingerprint: Fingerprint
}

/** Samples from `adapter` on fixed prompts; figures compare it with `references` on these samples. */
export type EvaluateRequest = {
  prompts: readonly (readonly number[])[]
  adapter: AdapterSha
  /** KL(adapter || reference) per sampled token, one mean for each reference. */
  references: readonly AdapterSha[]
  sampling: Sampling
  /** For each prompt the most tokens of its completion, instead of `sampling.maxTokens`. */
  limits?: readonly number[]
}
export type Evaluation = {
  completions: { ids: number[]; text: string; reason: FinishReason }[]
  kl: number[]
  /** Mean entropy per token in nats; mean length in tokens; share of repeated 4-grams, 0 to 1. */
  entropy: number
  length: number
  repetition: number
  /** KL and entropy are estimates; absent: they are sums over the whole vocabulary. */
  estimate?: KlEstimate
}

/**
 * How KL was estimated (packages/engine/src/remote/kl-estimate.ts). `top`: the likeliest tokens of each position that are
 * summed; 0: the sampled token alone. `errors`: the standard error of each `kl`, nats per token.
 */
export type KlEstimate = { top: number; errors: number[] }

/**
 * What the gate measures with: samples, and log-probs of given tokens, under a candidate beside the served versions.
 * Errors are InstarError.
 */
export interface Evaluator {
  /**
   * The one temperature at which it samples for KL and scores; absent: any. Requests for another one reject with
   * `not_available`.
   */
  readonly temperature?: number
  /** `as` tells an engine that serves others which adapter it may remove afterwards; default: `candidate`. */
  load(adapter: Adapter, as?: 'candidate' | 'served'): Promise<void>
  unload(sha256: string): Promise<void>
  evaluate(request: EvaluateRequest): Promise<Evaluation>
  score(request: ScoreRequest): Promise<Float32Array>
  /** As `score`, by each server that answers requests. Absent: what measures answers no requests. */
  scoreOnEach?(request: ScoreRequest): Promise<{ server: string; logprobs: Float32Array }[]>
}

/** Trains and evaluates adapters. Calls run one at a time, in order; results are bit-equal for equal fingerprints. */
export interface LearningEngine extends Evaluator {
  fingerprint(): Fingerprint
  /** `onProgress` is called with the part of the update that is done, 0…1, as it grows. */
  step(
    items: readonly TrainItem[],
    settings: StepSettings,
    parent: Parent,
    onProgress?: (share: number) => void,
  ): Promise<StepResult>
  close(): Promise<void>
}

/**
 * A chat message as the templates take it (OpenAI shape; unknown keys pass through). An assistant message may
 * have `token_ids`, the sampled ids: the prompt contains them unchanged in place of content, reasoning and tool calls,
 * except a last end-of-turn id, which the template writes.
 */
export type ChatMessage = { role: string; content: unknown; [key: string]: unknown }

/**
 * A model without its weights: tokenizer, chat template and settings. Its methods are fast enough for the main thread.
 */
export interface Model {
  name: string
  /** sha256 over config, tokenizer, template and weights; for a GGUF file also over its name. */
  sha256: string
  /** `sha256` as it is if the GGUF file has the name `name`. */
  sha256Named?(name: string): string
  contextLength: number
  vocabulary: number
  /**
   * Length of the longest token's text in UTF-16 units: a text has at least its length divided by this as its number of
   * tokens. Absent: not known.
   */
  longestToken?: number
  defaults: { temperature: number; topP: number; topK: number }
  endOfTurn: readonly number[]
  /** The tokenizer has a token `<think>`: an answer may begin with reasoning. */
  mayReason?: boolean
  encode(text: string): number[]
  decode(ids: readonly number[]): string
  /** Decodes one answer id by id. The concatenated results equal `decode` of all ids. */
  detokenizer(): { push(id: number): string; end(): string }
  render(
    messages: readonly ChatMessage[],
    options: { tools?: readonly unknown[]; addGenerationPrompt: boolean; now?: number },
  ): string
  /**
   * `render` and `encode`; control tokens are recognised in the template's text, not in the content of messages. `now`
   * (milliseconds since 1970) is for templates that write the date; without it they use their fallback.
   */
  promptIds(messages: readonly ChatMessage[], options: { tools?: readonly unknown[]; now?: number }): number[]
}
