/**
 * Rehearsal (Robins 1995, doi 10.1080/09540099550039318): rows with general prompts and the base's own answers, on which an update is
 * held to the base by a KL term, so that what is learned from the batch changes less of what other prompts give
 * (distillation from the model before training, as in learning without forgetting, arXiv 1606.09282).
 *
 *   loss += rehearsalWeight / R · Σ_r KL(base ‖ policy), by `opdForward` or its reverse, at temperature 1
 *
 * over the R answer tokens of the rows, with references as in references.ts: the OPD term of loss.ts with the base itself as teacher.
 */
import type { StepSettings, TrainItem } from '@instar/engine/port'
import type { BatchTurn } from './batch-turn.ts'
import { completionLogprobs, ownLogprobs, rowBatches } from './forward.ts'
import type { PassedTokens } from './passed-tokens.ts'
import { referenceOf } from './references.ts'
import type { Runtime } from './runtime/runtime.ts'

/** Those of the items of an update that are rehearsed; none without a weight. */
export const rehearsedOf = (items: readonly TrainItem[], { rehearsalWeight = 0 }: StepSettings): TrainItem[] =>
  rehearsalWeight > 0 ? items.filter(({ rehearsal }) => rehearsal) : []

/** The rows as turns without advantage and hint; counts one forward pass of the base in `tokens`. */
export async function rehearsalTurns(
  runtime: Runtime,
  items: readonly TrainItem[],
  { rehearsalWeight = 0, referenceTopK = 0, microBatchTokens }: StepSettings,
  tokens: PassedTokens,
): Promise<BatchTurn[]> {
  const count = items.reduce((sum, { completion }) => sum + completion.length, 0)
  const turns: BatchTurn[] = []
  for (const group of rowBatches(items, (item) => item, microBatchTokens)) {
    tokens.forward(group)
    const bases = await completionLogprobs(
      runtime,
      group.map((item) => ({ ...item, slot: null })),
    )
    group.forEach((item, at) => {
      const rows = bases[at] as Float32Array
      const old = ownLogprobs(rows, item.completion)
      const none = new Float32Array(old.length)
      const opd = rehearsalWeight / count
      turns.push({
        item,
        own: { base: null, teacher: old },
        tokens: { advantage: 0, behaviour: old, old, hint: null, subject: null, key: null },
        weights: { policy: none, importance: none, opd, kl: 0, masked: false, hintDropped: false },
        measured: { parent: null, base: null },
        base: null,
        teacher: referenceOf(rows, runtime.config.vocabulary, referenceTopK),
      })
    })
  }
  return turns
}
