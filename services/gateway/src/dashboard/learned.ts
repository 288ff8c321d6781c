/**
 * What the update did with each token of a turn that it trained on: the importance weight, the mask, and the teacher of the
 * distillation. The batch is read from the read model; log-probabilities that the trainer computed and nobody recorded are
 * computed again by the engine that serves, and the weights by the trainer's own function.
 */
import { dialectOf, parseJson, withHint } from '@instar/dialects'
import { hintOf, InstarError, lossMode, written, type BatchItem } from '@instar/events'
import type { Model, StepSettings } from '@instar/engine/port'
import { tokenWeights } from '@instar/policy/token-weights'
import type { ReadModel } from '@instar/projections/read-model'
import type { IdleQueue } from '../generate/idle-queue.ts'
import type { Pool } from '../versions/pool.ts'
import { holdBody, holdTokens, MOST_TOKENS, turnReady, type Charged, type TextPorts } from './turn-view.ts'

/** Why a turn has no term of distillation. `too_long`: prompt, hint and answer exceed the context. */
type NoTeacher = 'no_hint' | 'not_negative' | 'loss' | 'too_long' | 'contrast'

type Row = Awaited<ReturnType<ReadModel['learnedFrom']>>
type Batch = {
  item: Pick<BatchItem, 'reward' | 'turnScore' | 'outcome' | 'advantage' | 'hint'>
  parent: number
  loss: string
  settings: StepSettings
}

const batchOf = (row: NonNullable<Row>): Batch => ({
  item: {
    reward: Number(row['reward']),
    turnScore: row['turn_score'] as number | null,
    outcome: row['outcome'] as number | null,
    advantage: Number(row['advantage']),
    hint: typeof row['hint'] === 'string' ? written(row['hint']) : null,
  },
  parent: Number(row['parent_version']),
  loss: String(row['loss']),
  settings: row['settings'] as StepSettings,
})

/** The prompt of the teacher, or why there is none. */
const teacherPrompt = (
  model: Model,
  { item, loss, settings }: Batch,
  hint: string | null,
  turn: { dialect: string; ids: readonly number[] },
  body: Uint8Array,
): readonly number[] | NoTeacher => {
  if (item.hint === null || hint === null) return 'no_hint'
  if (!lossMode(loss).hints) return 'loss'
  if (hintOf(item as BatchItem) === null) return 'not_negative'
  // The contrasted teacher's normaliser is a sum over the vocabulary, which the sampled tokens do not give.
  if ((settings.opdContrast ?? 1) !== 1 && settings.sampledTokens !== 1) return 'contrast'
  const { messages, tools } = dialectOf(turn.dialect).request(parseJson(body))
  const prompt = model.promptIds(withHint(messages, hint), tools.length > 0 ? { tools } : {})
  return prompt.length + turn.ids.length <= model.contextLength ? prompt : 'too_long'
}

/**
 * Waits until the model is idle. Throws `not_available` if no update was trained on the turn, or its tokens were not
 * recorded exactly, and as the engine does.
 */
export const turnLearned = async (
  ports: TextPorts & { pool: Pool; idle: IdleQueue },
  row: Row,
  id: string,
  gone: AbortSignal,
  charged: Charged,
) => {
  if (row === null) throw new InstarError('not_available', 'No update was trained on this turn.')
  const { reader, model, engine, pool, idle } = ports
  const batch = batchOf(row)
  const { item, parent, loss, settings } = batch
  const { record, prompt, hinted } = await charged.read(async () => {
    await turnReady(ports, id)
    const found = await reader.record(id)
    if (found.tokens !== 'exact' || found.ids.length === 0 || found.ids.length > MOST_TOKENS)
      throw new InstarError('not_available', 'The tokens of this turn were not recorded exactly, or are too many.')
    holdTokens(charged, found)
    holdBody(charged, found)
    const ids = await reader.promptIds(id)
    const teacher = teacherPrompt(
      model,
      batch,
      row['hint'] as string | null,
      found,
      await reader.body(id, charged.hold),
    )
    return { record: found, prompt: ids, hinted: teacher }
  })
  // An engine without distributions computes at temperature 1; greedy log-probs are recorded so, too.
  const temperature = settings.sampledTokens === 1 ? 1 : record.sampling.temperature || 1
  const scored = await idle.run(
    'logprobs',
    gone,
    async (signal) => {
      const lease = await pool.lease(parent)
      try {
        const of = { completion: record.ids, temperature, hold: charged.hold }
        const old = await engine.score({ ...of, prompt, adapter: lease.adapter }, signal)
        if (typeof hinted === 'string') return { old, hint: null }
        const without = await engine.score({ ...of, prompt, adapter: null }, signal)
        return { old, hint: { without, with: await engine.score({ ...of, prompt: hinted, adapter: null }, signal) } }
      } finally {
        lease.release()
      }
    },
    charged.who,
  )
  const advantage = lossMode(loss).advantages ? item.advantage : 0
  const [weights] = tokenWeights(
    [{ advantage, behaviour: record.logprobs, old: scored.old, hint: scored.hint }],
    settings,
  )
  const contrast = settings.opdContrast ?? 1
  const gap = scored.old.reduce((sum, old, at) => sum + old - record.logprobs[at]!, 0) / scored.old.length
  return {
    loss,
    parent_version: parent,
    advantage,
    old: [...scored.old],
    importance: [...weights!.importance],
    importance_max: settings.tisCap,
    masked: weights!.masked,
    ratio: Math.exp(gap),
    ratio_max: settings.sequenceMask,
    teacher:
      scored.hint &&
      Array.from(scored.hint.with, (with_, at) => {
        const without = scored.hint!.without[at]!
        return without + contrast * (with_ - without)
      }),
    /** The hint did not make the answer less likely, so the update left it out. */
    hint_dropped: weights!.hintDropped,
    opd_weight: settings.opdWeight,
    no_teacher: typeof hinted === 'string' ? hinted : null,
  }
}
