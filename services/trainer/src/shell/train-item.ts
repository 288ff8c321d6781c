/** Items and settings of a step, from the records that a batch names. */
import { dialectOf, parseJson, withHint } from '@instar/dialects'
import { hintOf, InstarError, lossMode, readWritten, type BatchItem, type BatchSealed } from '@instar/events'
import type { TurnReader } from '@instar/log'
import type { Model, StepSettings, TrainItem } from '@instar/engine/port'
import { rulesOf } from '../core/baseline.ts'

/**
 * One item of a step: recorded token ids and log-probabilities, and the rendered prompt with the hint if the loss uses
 * it. A prompt with a hint that exceeds the model's context together with the answer is left out (`hintPrompt` null).
 */
export const trainItem = async (
  ports: { reader: TurnReader; model: Model },
  item: BatchItem,
  loss: string,
): Promise<TrainItem> => {
  const mode = lossMode(loss)
  const turn = await ports.reader.record(item.turn)
  const prompt = await ports.reader.promptIds(item.turn)
  const hint = mode.hints ? hintOf(item) : null
  const hinting = hint
    ? hintIds(ports.model, turn.dialect, await ports.reader.body(item.turn), readWritten(hint))
    : null

  const hintPrompt = hinting && hinting.length + turn.ids.length <= ports.model.contextLength ? hinting : null
  return {
    prompt,
    completion: turn.ids,
    behaviourLogprobs: turn.logprobs,
    temperature: turn.sampling.temperature,
    advantage: mode.advantages ? item.advantage : 0,
    subject: item.subject,
    key: turn.key,
    hintPrompt,
  }
}

/** Token ids of the request with the hint, rendered as by the gateway; null if this build rejects the recorded body. */
const hintIds = (model: Model, dialect: string, body: Uint8Array, hint: string): number[] | null => {
  try {
    const { messages, tools } = dialectOf(dialect).request(parseJson(body))
    return model.promptIds(withHint(messages, hint), tools.length > 0 ? { tools } : {})
  } catch (error) {
    if (error instanceof InstarError && error.code === 'bad_request') return null
    throw error
  }
}

/**
 * The settings of a step. The weight of the KL to the base grows with the advantages, so a batch without signal is not an
 * update by the KL alone. The loss `opd` has no advantages: its KL has the full weight (`klFullAtAdvantage` 0) in batches
 * whose record names version 2 or later of the rules (`settings.rules`, `RULES` in core/baseline.ts). Batches sealed
 * under version 1 are computed with the scaled weight.
 */
export const stepSettings = ({ settings, seed, loss }: BatchSealed): StepSettings => {
  const hasFullKl = !lossMode(loss).advantages && rulesOf(settings) >= 2
  return { ...(settings as StepSettings), ...(hasFullKl ? { klFullAtAdvantage: 0 } : {}), seed }
}
