/**
 * One sealed batch of sessions on a real SkyRL (CPU), models/tiny, with the turns of a session in one row
 * (`training.sharedPrefixes`) and in a row each: gradient, adapter after two of Adam's steps, and figures are compared.
 *
 *   node bootstrap.cjs test/engines/nightly/shared-rows.ts [URL] [TOKENS] [--merged]
 *
 * URL: of a running SkyRL on models/tiny; without it one is installed and started, as nightly:tinker does. TOKENS (400): of
 * the longest prompt. `--merged`: shared rows alone, for prompts whose separate rows exceed the memory. Prints the figures;
 * exit code 0 if all tests pass.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { TrainItem } from '@instar/engine/port'
import { getBlob, openMemoryLog } from '@instar/log'
import { readSafetensors } from '@instar/policy/checkpoints/safetensors'
import { uniform } from '@instar/policy/random'
import { connectTrainer, saveRequest, type TrainingServer } from '@instar/tinker'
import { exampleModel, openLine, startTrainer, STEP, untilWaits } from '../../kit/remote-line.ts'
import { MODEL } from '../trials.ts'
import { startSkyrl, type Skyrl } from './skyrl.ts'

for (const [name, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(name, () => process.exit(128 + number))

const positionals = process.argv.slice(2).filter((one) => !one.startsWith('--'))
const merged = process.argv.includes('--merged')
const running = positionals.find((one) => one.startsWith('http'))
const longest = Number(positionals.find((one) => /^\d+$/.test(one)) ?? 400)
const WAIT_MS = 30 * 60_000
const [SESSIONS, TURNS, ANSWER, RANK] = [2, 4, 12, 8]
/** ‖difference‖ / ‖gradient‖: float32, rows of other lengths summed in another order. */
const GRADIENT = 1e-5
/** ‖difference‖ / ‖change‖ of an adapter; Adam's step of a weight with a tiny gradient has its sign alone. */
const ADAPTER = 1e-2

const { vocab_size: vocabulary } = JSON.parse(readFileSync(join(MODEL, 'config.json'), 'utf8')) as {
  vocab_size: number
}
type Tensors = Map<string, Float32Array>
const tensorsOf = (bytes: Uint8Array): Tensors =>
  new Map([...readSafetensors(bytes)].map(([name, { data }]) => [name, data as Float32Array]))
const minus = (a: Tensors, b: Tensors): Tensors =>
  new Map([...a].map(([name, values]) => [name, values.map((value, at) => value - (b.get(name)?.[at] ?? Number.NaN))]))
const norm = (tensors: Tensors): number =>
  Math.sqrt([...tensors.values()].reduce((sum, all) => all.reduce((part, value) => part + value ** 2, sum), 0))
/** From Adam's first step with rate and epsilon 1: a weight moves by g / (|g| + 1). */
const gradient = (before: Tensors, after: Tensors): Tensors =>
  new Map([...minus(before, after)].map(([name, moved]) => [name, moved.map((value) => value / (1 - Math.abs(value)))]))

const random = uniform(7)
const ids = (count: number): number[] =>
  Array.from({ length: count }, () => 3 + Math.floor(random() * (vocabulary - 3)))

/** Sessions whose prompts grow evenly to `longest`; every third turn has a hint. */
const sessions = (): Omit<TrainItem, 'behaviourLogprobs'>[] =>
  Array.from({ length: SESSIONS }).flatMap((_, session) => {
    let before: number[] = []
    return Array.from({ length: TURNS }, (_each, turn) => {
      const length = Math.floor((longest * (turn + 1)) / TURNS)
      const [prompt, completion] = [[...before, ...ids(length - before.length)], ids(ANSWER)]
      before = [...prompt, ...completion]
      const at = session * TURNS + turn
      return {
        prompt,
        completion,
        temperature: 1,
        advantage: at % 3 === 0 ? -0.7 : 0.4,
        hintPrompt: at % 3 === 0 ? [0] : null,
      }
    })
  })

describe('the turns of a session in one row and in a row each, on SkyRL', () => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-rows-'))
  const figures: Record<string, unknown> = { longest }
  const model = { ...exampleModel(ids(40)), contextLength: 1 << 20, vocabulary }
  let skyrl: Skyrl | null = null
  let address: string
  let items: TrainItem[]

  /** The model's own log-probs, as if it had sampled the answers. */
  const scored = async (server: TrainingServer): Promise<TrainItem[]> => {
    const session = await server.openSession()
    const { model: base } = await server.createModel(session, { base: MODEL, rank: RANK, seed: 0, modelSeq: 0 })
    const drafts = sessions()
    const lasts = Array.from({ length: SESSIONS }, (_, session) => drafts[(session + 1) * TURNS - 1]!)
    const rows = lasts.map(({ prompt, completion }) => ({
      tokens: [...prompt, ...completion.slice(0, -1)],
      targets: [...prompt.slice(1), ...completion],
    }))
    const answers = await Promise.all(server.prepareForward(base, 1, rows).map((one) => server.send(one)))
    await server.unload(base)
    server.endSession(session)
    const logprobs = answers.flatMap(({ result }) => result.logprobs)
    return drafts.map((draft, at) => {
      const start = draft.prompt.length - 1
      const own = logprobs[Math.floor(at / TURNS)]!.slice(start, start + ANSWER)
      return { ...draft, behaviourLogprobs: [...own] }
    })
  }

  before(
    async () => {
      if (running === undefined) skyrl = await startSkyrl({ model: MODEL, folder, rank: RANK })
      await skyrl?.ready()
      address = `tinker+${skyrl?.url ?? running}`
      const server = await connectTrainer(address, { key: null })
      items = await scored(server)
      await server.close()
    },
    { timeout: WAIT_MS },
  )
  after(async () => {
    figures['skyrlMiB'] = skyrl?.memory() ?? null
    await skyrl?.stop()
    rmSync(folder, { recursive: true, force: true })
    process.stdout.write(`${JSON.stringify({ sharedRows: figures })}\n`)
  })

  const update = async (sharedPrefixes: boolean, step: Record<string, number>) => {
    const server = await connectTrainer(address, { key: null })
    const line = await openLine(openMemoryLog(), { name: 'tiny', sha256: 'tiny' })
    await line.turns(items)
    const started = await startTrainer(
      line.log,
      { server },
      { ...model, name: 'tiny', sha256: 'tiny' },
      {
        batchSize: items.length,
        batchMax: items.length,
        sharedPrefixes,
        step: { ...STEP, rank: RANK, klFullAtAdvantage: 0, klWeight: 0.2, sequenceMask: 4, ...step },
      },
    )
    const waits = await untilWaits(started, 'verdict', 'turns')
    const [[bound], [computed], [failed]] = [
      await line.events('TrainerBound'),
      await line.events('UpdateComputed'),
      await line.events('UpdateFailed'),
    ]
    assert.ok(bound && computed, `${waits} ${failed?.reason}`)
    const session = await server.openSession()
    const options = { base: bound.baseModel, rank: bound.rank, seed: bound.seed, modelSeq: 0 }
    const { model: fresh } = await server.createModel(session, options)
    const save = saveRequest(server.wire, 'save_weights_for_sampler', fresh, 1, 'initial', null)
    const { result } = await server.send(save)
    const initial = tensorsOf((await server.archive(result.path, 'base')).weights)
    await Promise.all([bound.model, bound.reference, fresh].map((one) => server.unload(one)))
    server.endSession(session)
    await started.trainer.stop()
    return {
      initial,
      final: tensorsOf(await getBlob(line.log, computed.adapter, computed.blobsAt)),
      figures: computed.figures as Readonly<Record<string, number>>,
      seconds: (computed.at - computed.startedAt) / 1000,
    }
  }

  for (const [name, step] of [
    ['gradient', { epochs: 1, adamEpsilon: 1, learningRate: 1 }],
    ['adapter after two steps', { epochs: 2, adamEpsilon: 1e-8 }],
  ] as const)
    test(name, { timeout: WAIT_MS, skip: merged }, async () => {
      const [shared, apart] = [await update(true, step), await update(false, step)]
      assert.equal(norm(minus(shared.initial, apart.initial)), 0)
      const [own, other] =
        name === 'gradient'
          ? [gradient(apart.initial, apart.final), gradient(shared.initial, shared.final)]
          : [minus(apart.final, apart.initial), minus(shared.final, shared.initial)]
      const distance = norm(minus(other, own)) / norm(own)
      const compared = ['loss', 'policyLoss', 'opdLoss', 'klLoss', 'gradNorm', 'klParent', 'tokens'].map(
        (figure) => [figure, shared.figures[figure] ?? null, apart.figures[figure] ?? null] as const,
      )
      const tokens = [shared, apart].map(({ figures: of }) => [
        of['backwardPromptTokens'],
        of['backwardResponseTokens'],
      ])
      figures[name] = { distance, norm: norm(own), compared, tokens }
      assert.ok(norm(own) > 0)
      assert.ok(distance < (name === 'gradient' ? GRADIENT : ADAPTER), String(distance))
      for (const [figure, left, right] of compared)
        assert.ok(
          Math.abs((left ?? Number.NaN) - (right ?? Number.NaN)) <= 1e-5 * Math.max(1, Math.abs(right ?? 0)),
          figure,
        )
      // A session is a row of its longest turn.
      assert.ok(tokens[0]![0]! < 0.5 * tokens[1]![0]!)
      assert.equal(tokens[0]![1], tokens[1]![1])
    })

  test('an update of one step in shared rows', { timeout: WAIT_MS }, async () => {
    const begin = performance.now()
    const shared = await update(true, { epochs: 1, adamEpsilon: 1e-8 })
    figures['merged'] = { seconds: Math.round((performance.now() - begin) / 100) / 10, figures: shared.figures }
    assert.equal(shared.figures['dropped_context_length_exceeded'] ?? 0, 0)
    assert.ok((shared.figures['gradNorm'] ?? 0) > 0)
  })
})
