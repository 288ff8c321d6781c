/**
 * Rows of rehearsal: general prompts of ours (models/rehearsal), drawn by the seed of the batch, with the base's own greedy
 * answers. They are a function of the batch's record, the file and the base, so that `verify` computes them again.
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InstarError, type BatchSealed, type Settings } from '@instar/events'
import type { ChatMessage, LearningEngine, Model, TrainItem } from '@instar/engine/port'
import { uniform } from '@instar/policy/random'

const FOLDER = fileURLToPath(new URL('../../../../models/rehearsal', import.meta.url))

/** The list that new batches rehearse. A list that a build shipped is never edited or removed: a batch names it by its digest. */
const CURRENT = 'prompts.jsonl'

/** Tokens of an answer at most. */
export const ANSWER_TOKENS = 16

type Prompts = { digest: number; prompts: (readonly ChatMessage[])[] }
const known = new Map<string, Prompts>()

/** `digest`: the first 48 bits of the file's sha256, which a record's settings hold exactly. */
export const rehearsalPrompts = (folder = FOLDER, name = CURRENT): Prompts => {
  const file = join(folder, name)
  let found = known.get(file)
  if (!found) {
    const bytes = readFileSync(file)
    const lines = bytes.toString('utf8').trim().split('\n')
    const digest = Number.parseInt(createHash('sha256').update(bytes).digest('hex').slice(0, 12), 16)
    found = { digest, prompts: lines.map((line) => (JSON.parse(line) as { messages: ChatMessage[] }).messages) }
    known.set(file, found)
  }
  return found
}

/** The list with this digest; undefined if this build has none. */
const promptsOf = (digest: number, folder: string): Prompts | undefined =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.jsonl'))
    .map((name) => rehearsalPrompts(folder, name))
    .find((list) => list.digest === digest)

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
const drawn = (
  model: Model,
  { prompts }: Prompts,
  { seed, settings }: Pick<BatchSealed, 'seed' | 'settings'>,
): number[][] => {
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
 * The rows of rehearsal of a batch; none if its settings have none. Throws `other_prompts` if the batch names a list that
 * this build does not have. `folder`: of the lists.
 */
export const rehearsalItems = async (
  { learner, model }: { learner: Pick<LearningEngine, 'evaluate'>; model: Model },
  { number, seed, settings }: Pick<BatchSealed, 'number' | 'seed' | 'settings'>,
  folder = FOLDER,
): Promise<TrainItem[]> => {
  if (!isOn(settings)) return []
  const { rehearsalPrompts: recorded = rehearsalPrompts(folder).digest } = settings
  const list = promptsOf(recorded, folder)
  if (!list)
    throw new InstarError(
      'other_prompts',
      `batch ${number} rehearses prompts (${recorded.toString(16)}) that this build does not have: use the build that sealed it`,
      { recorded },
    )
  const prompts = drawn(model, list, { seed, settings })
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
