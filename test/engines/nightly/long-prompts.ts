/**
 * A session with prompts of up to 18,000 tokens on a real SkyRL (CPU): a random Qwen3 shape of one attention head and a
 * context of 32,768 tokens, since SkyRL keeps all scores of a row on a CPU. Two updates, and a third one with a cap.
 *
 *   node bootstrap.cjs test/engines/nightly/long-prompts.ts [TOKENS]
 *
 * TOKENS (18000): of the longest prompt. Ends where SkyRL takes more than 16 GB, or leaves less than 3 GB of the machine's. Prints
 * rows, seconds and memory; exit code 0 if all tests pass.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TrainItem } from '@instar/engine/port'
import { openMemoryLog } from '@instar/log'
import { uniform } from '@instar/policy/random'
import { connectTrainer, type TrainingServer } from '@instar/tinker'
import { CONFIG, writeRandomModel } from '../../kit/random-model.ts'
import { exampleModel, openLine, startTrainer, STEP, untilWaits } from '../../kit/remote-line.ts'
import { startSkyrl, type Skyrl } from './skyrl.ts'

for (const [name, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(name, () => process.exit(128 + number))

const longest = Number(process.argv[2] ?? 18_000)
const PROMPTS = [longest / 9, (5 * longest) / 9, longest].map(Math.floor)
const [ANSWER, RANK, CONTEXT] = [20, 8, 32_768]
const WAIT_MS = 30 * 60_000
const [MOST_MIB, LEAST_FREE_MIB, SAMPLE_MS] = [16_000, 3000, 100]
const SHAPE = {
  ...CONFIG,
  hiddenSize: 64,
  intermediateSize: 128,
  heads: 1,
  kvHeads: 1,
  headDim: 64,
  contextLength: CONTEXT,
}

const random = uniform(11)
const ids = (count: number): number[] => Array.from({ length: count }, () => 3 + Math.floor(random() * 250))

/** Each prompt begins with the one before and its answer. */
const session = (): Omit<TrainItem, 'behaviourLogprobs'>[] => {
  let before: number[] = []
  return PROMPTS.map((length, turn) => {
    const [prompt, completion] = [[...before, ...ids(length - before.length)], ids(ANSWER)]
    before = [...prompt, ...completion]
    return { prompt, completion, temperature: 1, advantage: turn % 2 === 0 ? 1 : -1, hintPrompt: null }
  })
}

describe('prompts of an agent on SkyRL', () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-long-'))
  const base = writeRandomModel(join(folder, 'model'), SHAPE)
  const model = { ...exampleModel([1]), contextLength: CONTEXT, vocabulary: SHAPE.vocabulary }
  const figures: Record<string, unknown> = { prompts: PROMPTS }
  let skyrl: Skyrl
  let items: TrainItem[]
  let peak = 0
  const sampling = setInterval(() => {
    const now = skyrl?.memory() ?? 0
    peak = Math.max(peak, now)
    const free = Math.round(freemem() / 2 ** 20)
    if (now <= MOST_MIB && free >= LEAST_FREE_MIB) return
    clearInterval(sampling)
    void skyrl.kill().then(() => process.exit(3))
    process.stderr.write(`SkyRL takes ${now} MiB, and ${free} MiB are free: ended\n`)
  }, SAMPLE_MS)

  /** The model's own log-probs, as if it had sampled the answers. */
  const scored = async (server: TrainingServer): Promise<TrainItem[]> => {
    const own = await server.openSession()
    const { model: id } = await server.createModel(own, { base, rank: RANK, seed: 0, modelSeq: 0 })
    const drafts = session()
    const { prompt, completion } = drafts.at(-1)!
    const row = { tokens: [...prompt, ...completion.slice(0, -1)], targets: [...prompt.slice(1), ...completion] }
    const answers = await Promise.all(server.prepareForward(id, 1, [row]).map((one) => server.send(one)))
    await server.unload(id)
    server.endSession(own)
    const [logprobs] = answers.flatMap(({ result }) => result.logprobs)
    return drafts.map((draft) => {
      const start = draft.prompt.length - 1
      return { ...draft, behaviourLogprobs: Array.from(logprobs!.subarray(start, start + ANSWER)) }
    })
  }

  before(
    async () => {
      const config = join(base, 'config.json')
      const said = JSON.parse(readFileSync(config, 'utf8')) as Record<string, unknown>
      const more = { architectures: ['Qwen3ForCausalLM'], torch_dtype: 'float32' }
      writeFileSync(config, JSON.stringify({ ...said, ...more }))
      skyrl = await startSkyrl({ model: base, folder, rank: RANK, adapters: 4, rows: 1, checkpointing: true })
      await skyrl.ready()
      figures['startedMiB'] = skyrl.memory()
      const server = await connectTrainer(`tinker+${skyrl.url}`, { key: null })
      const begin = performance.now()
      items = await scored(server)
      figures['scoreSeconds'] = Math.round((performance.now() - begin) / 100) / 10
      await server.close()
    },
    { timeout: WAIT_MS },
  )
  after(async () => {
    clearInterval(sampling)
    await skyrl?.stop()
    rmSync(folder, { recursive: true, force: true })
    process.stdout.write(`${JSON.stringify({ longPrompts: figures })}\n`)
  })

  const run = async (updates: number, step: Record<string, number> = {}) => {
    const server = await connectTrainer(`tinker+${skyrl.url}`, { key: null })
    const line = await openLine(openMemoryLog())
    const seconds: number[] = []
    await line.turns(items)
    let begin = performance.now()
    const started = await startTrainer(line.log, { server }, model, {
      batchSize: items.length,
      batchMax: items.length,
      step: { ...STEP, rank: RANK, epochs: 1, klFullAtAdvantage: 0, klWeight: 0.2, sequenceMask: 4, ...step },
    })
    for (let update = 0; update < updates; update += 1) {
      if (update > 0) {
        await line.verdict(true)
        await untilWaits(started, 'turns')
        begin = performance.now()
        await line.turns(items, update * items.length, update)
        await untilWaits(started, 'compute')
      }
      await untilWaits(started, 'verdict', 'turns')
      seconds.push(Math.round((performance.now() - begin) / 100) / 10)
    }
    const [computed, scoredRows, failed] = [
      await line.events('UpdateComputed'),
      await line.events('TrainerScored'),
      await line.events('UpdateFailed'),
    ]
    assert.deepEqual([computed.length, failed.map(({ reason }) => reason)], [updates, []])
    for (const { model: trained, reference } of await line.events('TrainerBound'))
      await Promise.all([server.unload(trained), server.unload(reference)])
    await started.trainer.stop()
    return {
      dropped: scoredRows.map(({ dropped }) => dropped.map(({ reason }) => reason)),
      /** Of each update; the first with the probe of the server and compilation. */
      seconds,
      figures: computed.map((one) => one.figures as Readonly<Record<string, number>>),
    }
  }

  test(
    'three turns of a session are one row, its update is computed, and so is the next',
    { timeout: WAIT_MS },
    async () => {
      const found = await run(2)
      figures['updates'] = { peakMiB: peak, ...found }
      for (const { gradNorm, tokens, backwardPromptTokens, backwardResponseTokens } of found.figures) {
        assert.ok(gradNorm! > 0)
        assert.deepEqual([tokens, backwardResponseTokens], [3 * ANSWER, 3 * ANSWER])
        // A row of the longest prompt, without the answers before it.
        assert.equal(backwardPromptTokens, longest - 2 * ANSWER)
      }
      assert.deepEqual(found.dropped.flat(), [])
    },
  )

  test(
    'a turn above training.turnTokensMax is left out with its reason before it is sent',
    { timeout: WAIT_MS },
    async () => {
      const found = await run(1, { turnTokensMax: longest })
      figures['capped'] = found
      assert.deepEqual(found.dropped.flat(), ['context_length_exceeded'])
      assert.equal(found.figures[0]!['backwardPromptTokens'], PROMPTS[1]! - ANSWER)
    },
  )
})
