/**
 * An update of SmolLM2-135M beside four callers without a pause: how long it takes, and how much slower serving is
 * meanwhile, with and without learning's share of the cores. The turns are conversations of three answers of 64 tokens.
 */
import { createCoreShare, openModel, pausedMs, startLearning, startServing } from '@instar/policy'
import type { Model, ServingEngine, StepSettings, TrainItem } from '@instar/engine/port'
import { DEFAULTS_BY_SIZE } from '@instar/process'
import { trainerConfig } from '@instar/trainer'
import { join } from 'node:path'
import { fetchSmolLM2 } from '../cli/src/smollm2.ts'
import { machine, quantile, rounded } from './machine.ts'

type LearnerRow = {
  share: number
  turns: number
  updateSeconds: number
  cpuSeconds: number
  servedBefore: number
  servedDuring: number
  firstTokenBeforeMs: number
  firstTokenDuringMs: number
  pausedSeconds: number
}
type Report = { name: string; machine: string; rows: LearnerRow[] }
type Options = { quick?: boolean; shares?: readonly number[]; logLine?: (line: string) => void }

const CALLERS = 4
const TURNS = 16
const TOKENS = 64
const BASELINE_MS = 20_000
const TEXT =
  'Start by setting a regular time for it, and keep the room dark and quiet. Many people find that a short walk in the ' +
  'evening helps them to calm down, and that a warm drink without caffeine is a good sign for the body that the day is over.'

const conversations = (model: Model, turns: number): TrainItem[] => {
  const items: TrainItem[] = []
  for (let i = 0; items.length < turns; i += 1) {
    const messages: { role: string; content: string; token_ids?: number[] }[] = [
      { role: 'user', content: `What are some good ways to sleep better, number ${i}?` },
    ]
    for (const bad of [true, true, false]) {
      const completion = model.encode(TEXT).slice(0, TOKENS)
      const last = messages.at(-1)!
      const hinted = [...messages.slice(0, -1), { ...last, content: `${last.content}\nAnswer in one short sentence.` }]
      items.push({
        prompt: model.promptIds(messages, {}),
        completion,
        behaviourLogprobs: completion.map(() => -2),
        temperature: 0.7,
        advantage: bad ? -0.8 : 0.9,
        hintPrompt: bad ? model.promptIds(hinted, {}) : null,
      })
      messages.push(
        { role: 'assistant', content: model.decode(completion), token_ids: completion },
        { role: 'user', content: 'Shorter, please.' },
      )
    }
  }
  return items.slice(0, turns)
}

/** CALLERS requests at a time until `stop`; counts tokens and times to the first one. */
const load = (serving: ServingEngine, model: Model) => {
  const state = { tokens: 0, firstMs: [] as number[], stopped: false }
  const caller = async (index: number): Promise<void> => {
    for (let n = 0; !state.stopped; n += 1) {
      const prompt = model.promptIds([{ role: 'user', content: `Tell me about the number ${index * 1000 + n}.` }], {})
      const sampling = { temperature: 0.7, topP: 1, topK: 0, seed: n, maxTokens: TOKENS, stop: [] }
      const startedAt = performance.now()
      let first = true
      for await (const piece of serving.generate({ prompt, adapter: null, topLogprobs: 0, sampling })) {
        if (first) state.firstMs.push(performance.now() - startedAt)
        first = false
        if (piece.type === 'tokens') state.tokens += piece.tokens.length
        if (state.stopped) break
      }
    }
  }
  const done = Promise.all(Array.from({ length: CALLERS }, (_, i) => caller(i)))
  return {
    /** Tokens/s and the p99 of the first token since the last call. */
    async during<T>(work: Promise<T>): Promise<{ result: T; rate: number; firstMs: number; seconds: number }> {
      const [tokens, startedAt] = [state.tokens, performance.now()]
      state.firstMs = []
      const result = await work
      const seconds = (performance.now() - startedAt) / 1000
      return { result, rate: (state.tokens - tokens) / seconds, firstMs: quantile(state.firstMs, 0.99), seconds }
    },
    async stop(): Promise<void> {
      state.stopped = true
      await done
    },
  }
}

export const bench = async ({ quick = false, shares, logLine = () => undefined }: Options = {}): Promise<Report> => {
  const path = await fetchSmolLM2(join(import.meta.dirname, '../.cache'))
  const measuredOn = machine()
  const model = await openModel(path)
  const small = Object.fromEntries(
    DEFAULTS_BY_SIZE.flatMap(({ setting, small: value }) =>
      setting.startsWith('training.') && value !== null ? [[setting.slice('training.'.length), value]] : [],
    ),
  )
  const settings: StepSettings = { ...trainerConfig.parse({}).step, ...small, seed: 1, sequenceMask: 1e9 }
  const turns = quick ? 4 : TURNS
  const items = conversations(model, turns)
  const rows: LearnerRow[] = []
  for (const share of shares ?? [0.5, 0]) {
    const memory = createCoreShare(share)
    const serving = await startServing({ model: path, share: memory })
    const learning = await startLearning({ model: path, share: memory })
    const callers = load(serving, model)
    try {
      const parent = { adapter: null, state: null }
      logLine(`share ${share}: warm up`)
      await learning.step(items.slice(0, 1), { ...settings, epochs: 1 }, parent)
      const before = await callers.during(new Promise((resolve) => setTimeout(resolve, BASELINE_MS)))
      logLine(`share ${share}: ${before.rate.toFixed(1)} tokens/s without an update`)
      const [cpu, paused] = [process.cpuUsage(), pausedMs(memory)]
      const during = await callers.during(learning.step(items, settings, parent))
      const { user, system } = process.cpuUsage(cpu)
      rows.push({
        share,
        turns,
        updateSeconds: rounded(during.seconds),
        cpuSeconds: rounded((user + system) / 1e6),
        servedBefore: rounded(before.rate),
        servedDuring: rounded(during.rate),
        firstTokenBeforeMs: rounded(before.firstMs),
        firstTokenDuringMs: rounded(during.firstMs),
        pausedSeconds: rounded((pausedMs(memory) - paused) / 1000),
      })
      logLine(JSON.stringify(rows.at(-1)))
    } finally {
      await callers.stop()
      await learning.close()
      await serving.close()
    }
  }
  return { name: 'learner', machine: measuredOn, rows }
}
