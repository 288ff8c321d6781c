/**
 * Rows of rehearsal: general prompts of ours (models/rehearsal), drawn by the seed of the batch, with the base's own greedy
 * answers. They are a function of the batch's record, the file and the base, so that `verify` computes them again.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { InstarError, type BatchSealed, type Settings } from '@instar/events'
import type { ChatMessage, LearningEngine, Model, TrainItem } from '@instar/engine/port'
import { uniform } from '@instar/policy/random'

const FILE = fileURLToPath(new URL('../../../../models/rehearsal/prompts.jsonl', import.meta.url))

/** Tokens of an answer at most. */
export const ANSWER_TOKENS = 16

type Prompts = { digest: number; prompts: (readonly ChatMessage[])[] }
let known: Prompts | null = null

/** `digest`: the first 48 bits of the file's sha256, which a record's settings hold exactly. */
export const rehearsalPrompts = (): Prompts => {
  if (known) return known
  const bytes = readFileSync(FILE)
  const lines = bytes.toString('utf8').trim().split('\n')
  const digest = Number.parseInt(createHash('sha256').update(bytes).digest('hex').slice(0, 12), 16)
  known = { digest, prompts: lines.map((line) => (JSON.parse(line) as { messages: ChatMessage[] }).messages) }
  return known
}

/** The settings of a batch with the digest of the prompts that it rehearses; without rehearsal as they are. */
export const withRehearsal = (settings: Settings): Settings =>
  isOn(settings) ? { ...settings, rehearsalPrompts: rehearsalPrompts().digest } : settings

const isOn = ({ rehearsalRows = 0, rehearsalWeight = 0 }: Settings): boolean => rehearsalRows > 0 && rehearsalWeight > 0

/** Indices 0…count − 1 in an order by `seed` (Fisher–Yates). */
const shuffled = (count: number, seed: number): number[] => {
  const next = uniform(seed)
  const order = Array.from({ length: count }, (_, at) => at)
  for (let at = count - 1; at > 0; at--) {
    const other = Math.floor(next() * (at + 1))
    ;[order[at], order[other]] = [order[other] as number, order[at] as number]
  }
  return order
}

/** Token ids of the prompts of a batch: the first in the order of its seed that fit with their answers. */
const drawn = (model: Model, { seed, settings }: Pick<BatchSealed, 'seed' | 'settings'>): number[][] => {
  const { prompts } = rehearsalPrompts()
  const longest = Math.min(model.contextLength, settings.turnTokensMax || Infinity)
  const found: number[][] = []
  for (const at of shuffled(prompts.length, seed)) {
    if (found.length >= (settings.rehearsalRows ?? 0)) break
    const ids = model.promptIds(prompts[at] ?? [], {})
    if (ids.length + ANSWER_TOKENS <= longest) found.push(ids)
  }
  return found
}

/**
 * The rows of rehearsal of a batch; none if its settings have none. Throws `other_prompts` if the batch names other prompts than those of
 * this build.
 */
export const rehearsalItems = async (
  { learner, model }: { learner: Pick<LearningEngine, 'evaluate'>; model: Model },
  { number, seed, settings }: Pick<BatchSealed, 'number' | 'seed' | 'settings'>,
): Promise<TrainItem[]> => {
  if (!isOn(settings)) return []
  const { digest } = rehearsalPrompts()
  const { rehearsalPrompts: recorded = digest } = settings
  if (recorded !== digest)
    throw new InstarError(
      'bad_record',
      `batch ${number} rehearsed other prompts (${recorded.toString(16)}) than this build has (${digest.toString(16)}): use the build that computed it`,
      { recorded, found: digest },
    )
  const prompts = drawn(model, { seed, settings })
  // One call of the same rows each time: an answer may depend in its last bits on the rows beside it.
  const { completions } = await learner.evaluate({
    prompts,
    adapter: null,
    references: [],
    sampling: { temperature: 0, topP: 1, topK: 0, seed: 0, maxTokens: ANSWER_TOKENS, stop: [] },
  })
  return completions.map(({ ids }, at) => ({
    prompt: prompts[at] ?? [],
    completion: ids,
    behaviourLogprobs: ids.map(() => 0),
    temperature: 1,
    advantage: 0,
    hintPrompt: null,
    rehearsal: true as const,
  }))
}
