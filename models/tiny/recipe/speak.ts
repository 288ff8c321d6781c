/** Answers of a model folder to many conversations at once, for measuring it. */
import { openModel, loadWeights } from '@instar/policy'
import { frozenConstants } from '@instar/policy/parameters'
import type { ChatMessage } from '@instar/engine/port'
import { KvCache } from '@instar/policy/runtime/cache'
import { Decoder } from '@instar/policy/runtime/decoding'
import { createOnnxBackend } from '@instar/policy/runtime/onnx'
import { seeded } from './random.ts'
import type { Random } from './random.ts'

type Manner = { temperature: number; seed: number; maxTokens?: number }
export type Speaker = {
  answer(conversations: readonly (readonly ChatMessage[])[], manner: Manner): Promise<string[]>
  close(): Promise<void>
}

const ROWS = 48
/** The cache grows by what a step brings; a row that is done reads this and is ignored. */
const FILLER = 0

function draw(logits_V: Float32Array, temperature: number, random: Random): number {
  let best = 0
  for (let id = 1; id < logits_V.length; id++) if (logits_V[id]! > logits_V[best]!) best = id
  if (temperature === 0) return best
  const top = logits_V[best]!
  let sum = 0
  for (let id = 0; id < logits_V.length; id++) sum += Math.exp((logits_V[id]! - top) / temperature)
  let left = random() * sum
  for (let id = 0; id < logits_V.length; id++) {
    left -= Math.exp((logits_V[id]! - top) / temperature)
    if (left < 0) return id
  }
  return best
}

export async function openSpeaker(folder: string, threads: number): Promise<Speaker> {
  const model = await openModel(folder)
  const { config, weights } = loadWeights(folder)
  const backend = await createOnnxBackend({ threads })
  const decoder = await Decoder.create(backend, config, frozenConstants(config, weights))
  const ends = new Set(model.endOfTurn)

  async function generate(
    prompts: readonly number[][],
    { temperature, maxTokens = 120 }: Manner,
    random: Random,
  ): Promise<string[]> {
    const V = config.vocabulary
    const T = Math.max(...prompts.map((p) => p.length))
    const cache = new KvCache(config, prompts.length, T + maxTokens)
    const ids = new Int32Array(prompts.length * T).fill(FILLER)
    prompts.forEach((prompt, row) => ids.set(prompt, row * T))
    const rowSlots = prompts.map(() => null)
    const said: number[][] = prompts.map(() => [])
    const open = prompts.map(() => true)
    let { logits } = await decoder.step({ ids, T, cache, rowSlots, counts: prompts.map((p) => p.length) })
    for (let n = 0; n < maxTokens; n++) {
      const next = new Int32Array(prompts.length).fill(FILLER)
      for (let row = 0; row < prompts.length; row++) {
        if (!open[row]) continue
        const id = draw(logits.subarray(row * V, (row + 1) * V), temperature, random)
        if (ends.has(id)) open[row] = false
        else {
          said[row]!.push(id)
          next[row] = id
        }
      }
      if (!open.includes(true)) break
      ;({ logits } = await decoder.step({ ids: next, T: 1, cache, rowSlots }))
    }
    return said.map((row) => model.decode(row))
  }

  return {
    async answer(conversations, manner) {
      const prompts = conversations
        .map((messages, at) => ({ at, ids: model.promptIds(messages, {}) }))
        .sort((a, b) => a.ids.length - b.ids.length || a.at - b.at)
      const random = seeded(manner.seed)
      const answers: string[] = []
      for (let begin = 0; begin < prompts.length; begin += ROWS) {
        const some = prompts.slice(begin, begin + ROWS)
        const texts = await generate(
          some.map((p) => p.ids),
          manner,
          random,
        )
        some.forEach((prompt, i) => {
          answers[prompt.at] = texts[i]!
        })
      }
      return answers
    },
    async close() {
      await decoder.dispose()
      await backend.dispose()
    },
  }
}
