/**
 * One update of one adapter: the gradient of the hybrid loss (loss.ts) summed over micro-batches, its norm clipped, and
 * one Adam step per epoch, or per mini-batch of it. It uses no random numbers and no clock: equal inputs on engines with
 * equal fingerprints give equal bytes.
 */
import { createHash } from 'node:crypto'
import { InstarError } from '@instar/events/errors'
import { addTo, adamStep, globalNorm, initialAdam, readAdam, writeAdam } from './adam.ts'
import { readAdapter, writeAdapter } from './checkpoints/peft.ts'
import { shareFigures, tokenWeights } from './token-weights.ts'
import type { TurnWeights } from './token-weights.ts'
import { inverseTemperature } from './distribution.ts'
import { completionLogprobs, ownLogprobs, padded, rowBatches } from './forward.ts'
import { PassedTokens } from './passed-tokens.ts'
import type { BatchTurn } from './batch-turn.ts'
import { checkItem } from './step-check.ts'
import { isUntempered } from './sampled-loss.ts'
import { linearBatch } from './sampled-step.ts'
import { initialLora, loraFrom, loraTensors } from './lora.ts'
import type { Parent, StepFigures, StepResult, StepSettings, TrainItem } from '@instar/engine/port'
import type { Runtime } from './runtime/runtime.ts'
import { compileTraining } from './training.ts'
import type { MicroBatch, MicroBatchResult, Training } from './training.ts'
import { divergenceMeter, measuredTokens } from './divergence.ts'
import { bytesPerToken, contrastedTeacher, isReduced, joined, referenceOf } from './references.ts'
import type { Reference } from './references.ts'
import { rehearsalTurns, rehearsedOf } from './rehearsal.ts'
import { exceeds, withinBounds } from './trust-region.ts'
import type { Bounds, Divergences } from './trust-region.ts'
import type { Lora } from './checkpoints/peft.ts'
import type { WeightTensor } from './weights.ts'

/** Default of `referenceBytes`. */
const REFERENCE_BYTES = 128 * 1024 * 1024

/** The adapter slot of the adapter that the update starts from. The caller may use all other slots. */
export const PARENT_SLOT = 0
/** The slot for a candidate while it is measured. */
const CANDIDATE_SLOT = 1
/** The slot of an adapter that is a part of the base. */
const BASE_SLOT = 2
/** Those that a step leaves filled. */
export const STEP_SLOTS = [PARENT_SLOT, BASE_SLOT] as const

/** What an epoch computes with. `first`: before the first step, when `adapter` is the parent. */
type Pass = {
  training: Training
  adapter: ReadonlyMap<string, WeightTensor>
  started: Lora
  settings: StepSettings
  first: boolean
}

/** Computes updates; compiled training programs are reused. `base`: sha256 of the base model. */
export class Trainer {
  private readonly runtime: Runtime
  private readonly base: string
  private readonly programs = new Map<string, Promise<Training>>()
  /** Of the step that is being computed; steps follow one another, since they share the slots of the runtime. */
  private tokens = new PassedTokens()
  /** The slot of the base in the step that is being computed: null for the weights alone. */
  private baseSlot: number | null = null

  constructor(runtime: Runtime, base: string) {
    this.runtime = runtime
    this.base = base
  }

  private program(rank: number, alpha: number, settings: StepSettings): Promise<Training> {
    const { clipLow, clipHigh, referenceTopK: topK = 0, opdForward = 0 } = settings
    const fixed = { rank, alpha, clipLow, clipHigh, topK, opdForward }
    const key = JSON.stringify(fixed)
    let compiled = this.programs.get(key)
    if (!compiled)
      this.programs.set(
        key,
        (compiled = compileTraining(this.runtime.backend, this.runtime.config, this.runtime.constants, fixed)),
      )
    return compiled
  }

  /**
   * `settings.rank`, `alpha` and `seed` apply to the first adapter of a line only; an update keeps the rank and alpha of
   * its parent; `parent.base` is the reference of every KL term and the teacher. A batch in which every advantage is zero and every hint is absent or dropped takes no Adam step. Loss
   * figures include their weights and are means over the epochs. Throws `bad_request` for an invalid item and
   * `context_length_exceeded` for one that does not fit the context or `turnTokensMax` (both before any computation, with the index as
   * `item`; `field` is `prompt` or `hintPrompt`), and `update_not_finite` if the loss or the gradient is not finite, with
   * the index of the item if it is that of one item and not of all.
   */
  async step(
    rows: readonly TrainItem[],
    settings: StepSettings,
    parent: Parent,
    onProgress: (share: number) => void = () => undefined,
  ): Promise<StepResult> {
    const { config } = this.runtime
    this.tokens = new PassedTokens()
    rows.forEach((item, at) => {
      checkItem(item, at, config, settings)
    })
    const items = rows.filter((item) => !item.rehearsal)
    const rehearsed = rehearsedOf(rows, settings)
    const started = parent.adapter
      ? readAdapter(parent.adapter, config)
      : initialLora(config, settings.rank, settings.alpha, settings.seed)
    const base = parent.base ? readAdapter(parent.base, config) : null
    if (base && (base.rank !== started.rank || base.alpha !== started.alpha))
      throw new InstarError('internal', `the adapter of the base has rank ${base.rank}, its line ${started.rank}`)
    this.runtime.setAdapterSlot(PARENT_SLOT, started)
    this.runtime.setAdapterSlot(BASE_SLOT, base)
    this.baseSlot = base ? BASE_SLOT : null
    const adapter = new Map(
      [...loraTensors(config, started)].map(([name, { shape, data }]) => [name, { shape, data: data.slice() }]),
    )
    const state = parent.state ? readAdam(parent.state, adapter) : initialAdam(adapter)
    const progress = new StepProgress(items, rehearsed.length, settings, onProgress)
    const turns = await this.prepare(items, settings, progress)
    const figures = emptyFigures(items, turns, settings)
    const signal = turns.some((turn) => turn.item.advantage !== 0 || turn.weights.opd > 0)
    if (signal) {
      const bounded = await this.bounds(turns, settings, started, progress)
      let divergences: Divergences | null = null
      const rehearsal = await rehearsalTurns(this.runtime, rehearsed, settings, this.tokens)
      progress.passed(rehearsal.length)
      if (rehearsal.length > 0) Object.assign(figures, { rehearsalRows: rehearsal.length, rehearsalLoss: 0 })
      const training = await this.program(started.rank, started.alpha, settings)
      for (let epoch = 0; epoch < settings.epochs; epoch++) {
        for (const part of miniBatches(rowBatches(turns, sequenceOf, settings.microBatchTokens), settings)) {
          const first = figures.steps === 0
          const gradients = new Map([...adapter].map(([name, tensor]) => [name, new Float32Array(tensor.data.length)]))
          const pass = { training, adapter, started, settings, first }
          const own = rehearsal.filter((_, at) => at % part.count === part.index)
          await this.rehearse(own, pass, { gradients, figures, progress })
          for (const group of part.groups) {
            const result = await this.gradient(group, pass)
            progress.passed(group.length * TRAINING_PASS)
            addTo(gradients, result.gradients)
            figures.loss += result.loss / settings.epochs
            figures.policyLoss += result.policyLoss / settings.epochs
            figures.opdLoss += result.opdLoss / settings.epochs
            figures.klLoss += result.klLoss / settings.epochs
            figures.clipFraction += result.clipped / (figures.tokens * settings.epochs)
          }
          // Weights are those of the whole batch; the norm is that of an estimate of the whole batch's gradient.
          const norm = globalNorm(gradients) * part.count
          if (!Number.isFinite(norm) || !Number.isFinite(figures.loss)) {
            const item = first ? await this.notFinite(turns, pass) : null
            throw new InstarError(
              'update_not_finite',
              `the gradient of epoch ${epoch + 1} has norm ${norm}${item === null ? '' : `, because of turn ${item}`}`,
              { epoch: epoch + 1, loss: figures.loss, ...(item === null ? {} : { item }) },
            )
          }
          figures.gradNorm += norm / (settings.epochs * part.count)
          const scale = part.count * (norm > settings.maxGradNorm ? settings.maxGradNorm / norm : 1)
          adamStep(adapter, gradients, scale, state, settings)
          figures.steps++
        }
        divergences = bounded && (await bounded.measure(adapter))
        if (bounded && divergences && exceeds(divergences, bounded.bounds)) break
      }
      if (bounded && divergences) {
        const { bounds, measure } = bounded
        const taken = await withinBounds(
          { parent: loraTensors(config, started), base: base ? loraTensors(config, base) : null },
          adapter,
          divergences,
          bounds,
          measure,
        )
        for (const [name, { data }] of taken.tensors) adapter.get(name)?.data.set(data)
        figures.stepScale = taken.stepScale
        figures.baseScale = taken.baseScale
        figures.klParent = taken.divergences.parent
        figures.klBase = taken.divergences.base
      }
    }
    const bytes = writeAdam(state, adapter)
    return {
      adapter: writeAdapter(loraFrom(config, started.rank, started.alpha, adapter), this.base),
      state: bytes,
      stateSha256: createHash('sha256').update(bytes).digest('hex'),
      figures: { ...figures, ...this.tokens.figures },
      fingerprint: this.runtime.fingerprint(),
    }
  }

  /** Adds gradient and loss of rows of rehearsal. */
  private async rehearse(
    turns: readonly BatchTurn[],
    pass: Pass,
    to: { gradients: Map<string, Float32Array>; figures: StepFigures; progress: StepProgress },
  ): Promise<void> {
    const { epochs, microBatchTokens } = pass.settings
    for (const group of rowBatches(turns, sequenceOf, microBatchTokens)) {
      const { loss, opdLoss, gradients } = await this.gradient(group, pass)
      to.progress.passed(group.length * TRAINING_PASS)
      addTo(to.gradients, gradients)
      to.figures.loss += loss / epochs
      to.figures.rehearsalLoss = (to.figures.rehearsalLoss ?? 0) + opdLoss / epochs
    }
  }

  /** Loss and gradient of a micro-batch, in the form of the settings. */
  private async gradient(turns: readonly BatchTurn[], pass: Pass): Promise<MicroBatchResult & { clipped: number }> {
    const { training, adapter, settings } = pass
    this.tokens.backward(turns.map(({ item }) => item))
    if (settings.sampledTokens === 1) {
      const { batch, losses, clipped } = linearBatch(turns, await this.logprobsNow(turns, pass), settings)
      return { ...(await training.run(adapter, batch)), ...losses, clipped }
    }
    const batch = await this.microBatch(turns, settings)
    const result = await training.run(adapter, batch)
    return { ...result, clipped: clippedTokens(batch, result.logp, settings) }
  }

  /** Log-probabilities of the answers under the adapter of this pass. */
  private async logprobsNow(
    turns: readonly BatchTurn[],
    { adapter, started: { rank, alpha }, first }: Pass,
  ): Promise<ArrayLike<number>[]> {
    if (first) return turns.map(({ tokens }) => tokens.old)
    this.runtime.setAdapterSlot(CANDIDATE_SLOT, loraFrom(this.runtime.config, rank, alpha, adapter))
    try {
      const sequences = turns.map(({ item }) => ({ ...item, slot: CANDIDATE_SLOT }))
      this.tokens.forward(sequences)
      const rows = await completionLogprobs(this.runtime, sequences)
      return rows.map((own, at) => ownLogprobs(own, turns[at]?.item.completion ?? []))
    } finally {
      this.runtime.setAdapterSlot(CANDIDATE_SLOT, null)
    }
  }

  /**
   * The first turn whose own loss or gradient is not finite, computed alone; null unless that of another one is finite:
   * then the adapter is the cause.
   */
  private async notFinite(turns: readonly BatchTurn[], pass: Pass): Promise<number | null> {
    let first: number | null = null
    let others = false
    for (const [at, turn] of turns.entries()) {
      const { loss, gradients } = await this.gradient([turn], pass)
      if (Number.isFinite(loss) && Number.isFinite(globalNorm(gradients))) others = true
      else first ??= at
      if (others && first !== null) return first
    }
    return null
  }

  /** The bounds of the settings and how to measure against them; null without a bound. */
  private async bounds(
    turns: readonly BatchTurn[],
    settings: StepSettings,
    { rank, alpha }: Lora,
    progress: StepProgress,
  ): Promise<{ bounds: Bounds; measure: (tensors: ReadonlyMap<string, WeightTensor>) => Promise<Divergences> } | null> {
    const { bounded, klParentMax, klBaseMax } = boundsOf(settings)
    if (!bounded) return null
    const divergences = await divergenceMeter(
      this.runtime,
      turns.map(({ item }) => item),
      { parent: PARENT_SLOT, base: this.baseSlot },
      settings.microBatchTokens,
      turns.map(({ measured }) => measured),
      (sequences) => {
        this.tokens.forward(sequences)
        progress.passed(sequences.length)
      },
    )
    return {
      bounds: { parent: klParentMax, base: klBaseMax },
      measure: async (tensors) => {
        this.runtime.setAdapterSlot(CANDIDATE_SLOT, loraFrom(this.runtime.config, rank, alpha, tensors))
        try {
          return await divergences(CANDIDATE_SLOT)
        } finally {
          this.runtime.setAdapterSlot(CANDIDATE_SLOT, null)
        }
      },
    }
  }

  /** Computes the log-probabilities of the learner, the base and the teachers, and from them the weight of each token. */
  private async prepare(
    items: readonly TrainItem[],
    settings: StepSettings,
    progress: StepProgress,
  ): Promise<BatchTurn[]> {
    const { vocabulary } = this.runtime.config
    const topK = settings.referenceTopK ?? 0
    const sampled = settings.sampledTokens === 1
    const cached =
      !sampled &&
      items.reduce((sum, item) => sum + item.completion.length * (item.hintPrompt ? 2 : 1), 0) *
        bytesPerToken(topK, vocabulary) <=
        (settings.referenceBytes ?? REFERENCE_BYTES)
    const turns = items.map((recorded): Omit<BatchTurn, 'weights'> => {
      const item = sampled ? { ...recorded, temperature: 1 } : recorded
      return {
        item,
        own: { base: null, teacher: null },
        tokens: {
          advantage: item.advantage,
          behaviour: item.behaviourLogprobs,
          old: [],
          hint: null,
          subject: item.subject ?? null,
          key: item.key ?? null,
        },
        measured: { parent: null, base: null },
        base: null,
        teacher: null,
      }
    })
    const measured = measuredTokens(items.length, vocabulary) * vocabulary
    const { bounded } = boundsOf(settings)
    for (const group of rowBatches(turns, sequenceOf, settings.microBatchTokens)) {
      this.tokens.forward(group.map(({ item }) => item))
      const students = await completionLogprobs(
        this.runtime,
        group.map(({ item }) => ({ ...item, slot: PARENT_SLOT })),
      )
      group.forEach((turn, at) => {
        const rows = students[at] as Float32Array
        turn.tokens.old = ownLogprobs(rows, turn.item.completion)
        if (sampled && !isUntempered(items[turns.indexOf(turn)]?.temperature ?? 1))
          turn.tokens.behaviour = turn.tokens.old
        if (bounded) turn.measured.parent = rows.slice(0, measured)
      })
      progress.passed(group.length)
    }
    const lost = turns.findIndex(({ tokens }) => !Array.from(tokens.old).every(Number.isFinite))
    if (lost >= 0 && turns.some(({ tokens }) => Array.from(tokens.old).every(Number.isFinite)))
      throw new InstarError('update_not_finite', `the log-probabilities of turn ${lost} are not finite`, { item: lost })
    const withBase = turns.filter(
      ({ item }) => item.hintPrompt !== null || ((cached || sampled) && settings.klWeight > 0),
    )
    for (const group of rowBatches(withBase, sequenceOf, settings.microBatchTokens)) {
      this.tokens.forward(group.map(({ item }) => item))
      const bases = await completionLogprobs(
        this.runtime,
        group.map(({ item }) => ({ ...item, slot: this.baseSlot })),
      )
      group.forEach((turn, at) => {
        const rows = bases[at] as Float32Array
        if (sampled) turn.own.base = ownLogprobs(rows, turn.item.completion)
        if (turn.item.hintPrompt) turn.tokens.hint = { without: ownLogprobs(rows, turn.item.completion), with: [] }
        if (!cached) return
        turn.base = referenceOf(rows, vocabulary, topK)
        // Of a whole reference, whose rows are kept, no copy.
        if (bounded)
          turn.measured.base = isReduced(topK, vocabulary) ? rows.slice(0, measured) : rows.subarray(0, measured)
      })
      progress.passed(group.length)
    }
    const hinted = turns.filter(({ item }) => item.hintPrompt !== null)
    for (const group of rowBatches(
      hinted,
      ({ item }) => ({ prompt: item.hintPrompt ?? item.prompt, completion: item.completion }),
      settings.microBatchTokens,
    )) {
      const teachers = await this.teacherLogprobs(
        group.map(({ item }) => item),
        settings,
      )
      group.forEach((turn, at) => {
        const rows = teachers[at] as Float32Array
        if (turn.tokens.hint) turn.tokens.hint.with = ownLogprobs(rows, turn.item.completion)
        if (sampled) turn.own.teacher = ownLogprobs(rows, turn.item.completion)
        if (cached) turn.teacher = referenceOf(rows, vocabulary, topK)
      })
      progress.passed(group.length)
    }
    const weights = tokenWeights(
      turns.map(({ tokens }) => tokens),
      settings,
    )
    return turns.map((turn, at) => ({ ...turn, weights: weights[at] as TurnWeights }))
  }

  /**
   * Log-probabilities [completion length, V] of the teacher: the base model with the hint in the prompt, and with
   * `opdContrast`, but not under `sampledTokens`, the contrast to it without the hint. That is computed once more: kept for all
   * hinted turns, it would take 4 · vocabulary bytes a token.
   */
  private async teacherLogprobs(
    items: readonly TrainItem[],
    { opdContrast = 1, sampledTokens = 0 }: StepSettings,
  ): Promise<Float32Array[]> {
    const sequences = items.map((item) => ({ ...item, prompt: item.hintPrompt ?? item.prompt, slot: this.baseSlot }))
    this.tokens.teacher(sequences)
    const hinted = await completionLogprobs(this.runtime, sequences)
    if (opdContrast === 1 || sampledTokens === 1) return hinted
    this.tokens.forward(items)
    const bases = await completionLogprobs(
      this.runtime,
      items.map((item) => ({ ...item, slot: this.baseSlot })),
    )
    const { vocabulary } = this.runtime.config
    return hinted.map((rows, at) => contrastedTeacher(rows, bases[at] as Float32Array, vocabulary, opdContrast))
  }

  private async microBatch(turns: readonly BatchTurn[], settings: StepSettings): Promise<MicroBatch> {
    const topK = settings.referenceTopK ?? 0
    const { vocabulary } = this.runtime.config
    const { ids, B, T, places } = padded(turns.map(({ item: { prompt, completion } }) => ({ prompt, completion })))
    const batch: MicroBatch = {
      B,
      T,
      ids,
      rows: places,
      targets: [],
      inverseTemperature: [],
      old: [],
      advantage: [],
      weight: [],
      opd: { places: [], reference: joined([]), weight_R: [] },
      kl: { places: [], reference: joined([]), weight_R: [] },
    }
    const opdTurns = turns.filter((turn) => turn.weights.opd > 0)
    const klTurns = turns.filter((turn) => turn.weights.kl > 0)
    const withoutTeacher = opdTurns.filter((turn) => !turn.teacher)
    const withoutBase = klTurns.filter((turn) => !turn.base)
    const hinted = await this.teacherLogprobs(
      withoutTeacher.map((turn) => turn.item),
      settings,
    )
    const teachers = new Map(hinted.map((rows, at) => [withoutTeacher[at], rows]))
    this.tokens.forward(withoutBase.map(({ item }) => item))
    const bases = new Map(
      (
        await completionLogprobs(
          this.runtime,
          withoutBase.map((turn) => ({ ...turn.item, slot: this.baseSlot })),
        )
      ).map((rows, at) => [withoutBase[at], rows]),
    )
    const computed = (rows: Float32Array | undefined): Reference => {
      if (!rows) throw new Error('the reference log-probabilities of a turn are missing')
      return referenceOf(rows, vocabulary, topK)
    }
    for (const turn of turns) {
      const { item, tokens, weights } = turn
      const start = batch.targets.length
      item.completion.forEach((id, at) => {
        batch.targets.push(id)
        batch.inverseTemperature.push(inverseTemperature(item.temperature))
        batch.old.push(tokens.old[at] as number)
        batch.advantage.push(item.advantage)
        batch.weight.push(weights.policy[at] as number)
        for (const [rows, weight] of [
          [batch.opd, weights.opd],
          [batch.kl, weights.kl],
        ] as const) {
          if (weight === 0) continue
          rows.places.push(start + at)
          rows.weight_R.push(weight)
        }
      })
    }
    batch.opd.reference = joined(opdTurns.map((turn) => turn.teacher ?? computed(teachers.get(turn))))
    batch.kl.reference = joined(klTurns.map((turn) => turn.base ?? computed(bases.get(turn))))
    return batch
  }
}

/**
 * The micro-batches of an epoch, dealt in turn to `count` Adam steps (mini-batches of PPO, arXiv 1707.06347, algorithm 1). They
 * come sorted by length, so that each step has long and short turns. There is no step without a micro-batch.
 */
export function miniBatches<T>(
  groups: readonly T[],
  { miniBatches: wanted = 1 }: Pick<StepSettings, 'miniBatches'>,
): { groups: T[]; index: number; count: number }[] {
  const count = Math.max(1, Math.min(wanted, groups.length))
  return Array.from({ length: count }, (_, index) => ({
    groups: groups.filter((_group, at) => at % count === index),
    index,
    count,
  }))
}

/** A training pass is a forward pass, and a backward pass of twice its operations. */
const TRAINING_PASS = 3
/** Forward passes of the line search, of which there may be none or up to twelve. */
const SEARCH_PASSES = 3

/** Reports the part of an update that is done, 0…1, by the sequences of the forward passes that it takes. */
class StepProgress {
  private done = 0
  private readonly total: number
  private readonly onProgress: (share: number) => void

  constructor(
    items: readonly TrainItem[],
    rehearsed: number,
    settings: Pick<StepSettings, 'epochs' | 'klParentMax' | 'klBaseMax'>,
    onProgress: (share: number) => void,
  ) {
    const { bounded } = boundsOf(settings)
    const hinted = items.filter(({ hintPrompt }) => hintPrompt !== null).length
    const measures = bounded ? settings.epochs + SEARCH_PASSES : 0
    const trained = TRAINING_PASS * settings.epochs
    this.total = items.length * (2 + trained + measures) + hinted + rehearsed * (1 + trained)
    this.onProgress = onProgress
  }

  passed(sequences: number): void {
    this.done += sequences
    this.onProgress(Math.min(0.99, this.done / this.total))
  }
}

/** The bounds of a step with their defaults, and whether there is one. */
const boundsOf = ({
  klParentMax = Infinity,
  klBaseMax = Infinity,
}: Pick<StepSettings, 'klParentMax' | 'klBaseMax'>): { bounded: boolean; klParentMax: number; klBaseMax: number } => ({
  bounded: klParentMax !== Infinity || klBaseMax !== Infinity,
  klParentMax,
  klBaseMax,
})

const sequenceOf = ({ item }: Pick<BatchTurn, 'item'>): Pick<TrainItem, 'prompt' | 'completion'> => item

/** The number of tokens whose policy gradient is zero because their ratio was clipped. */
function clippedTokens(batch: MicroBatch, logp: Float32Array, settings: StepSettings): number {
  return batch.advantage.filter((advantage, at) => {
    const ratio = Math.exp((logp[at] as number) - (batch.old[at] as number))
    return (advantage > 0 && ratio > 1 + settings.clipHigh) || (advantage < 0 && ratio < 1 - settings.clipLow)
  }).length
}

function emptyFigures(items: readonly TrainItem[], turns: readonly BatchTurn[], settings: StepSettings): StepFigures {
  const mean = (values: number[]): number =>
    values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
  return {
    loss: 0,
    policyLoss: 0,
    opdLoss: 0,
    klLoss: 0,
    gradNorm: 0,
    clipFraction: 0,
    steps: 0,
    meanAdvantage: mean(turns.map((turn) => turn.item.advantage)),
    meanAbsAdvantage: mean(turns.map((turn) => Math.abs(turn.item.advantage))),
    maskedTurns: turns.filter((turn) => turn.weights.masked).length,
    behaviourGap: mean(
      turns.flatMap((turn) =>
        Array.from(turn.tokens.old, (old, at) => Math.abs(old - (turn.tokens.behaviour[at] as number))),
      ),
    ),
    tokens: turns.reduce((sum, turn) => sum + turn.item.completion.length, 0),
    droppedHints: turns.filter((turn) => turn.weights.hintDropped).length,
    ...(settings.sampledTokens === 1
      ? { temperedTurns: items.filter(({ temperature }) => !isUntempered(temperature)).length }
      : {}),
    ...(settings.weightShare === undefined
      ? {}
      : shareFigures(
          turns.map(({ tokens }) => tokens),
          settings,
        )),
  }
}
