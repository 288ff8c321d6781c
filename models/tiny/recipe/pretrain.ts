/**
 * Makes the model of this folder from nothing: `npm run pretrain -- [--steps N] [--threads N] [--seed N]
 * [--out FOLDER] [--fresh]`. An interrupted run goes on from its last checkpoint unless `--fresh` is given.
 * The weights depend on the seed, the number of steps, the engine's build, the CPU's instruction set and the
 * number of threads, and on nothing else.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { encodeF16 } from '@instar/policy/checkpoints/float16'
import { readSafetensorsWithMetadata, writeSafetensors } from '@instar/policy/checkpoints/safetensors'
import type { Tensor } from '@instar/policy/checkpoints/safetensors'
import { initialWeights } from '@instar/policy/initial'
import { adamRate, muonAdam, zeroMoments } from '@instar/policy/muon'
import { compilePretraining } from '@instar/policy/pretraining'
import { createOnnxBackend } from '@instar/policy/runtime/onnx'
import type { ModelConfig, WeightTensor } from '@instar/policy/weights'
import { batches } from './batches.ts'
import { encoder } from './bpe.ts'
import { isMain } from './main.ts'
import { folderFiles, trainedBpe } from './make-tokenizer.ts'
import { SHAPE } from './shape.ts'

/** Positions of a batch, padding included. */
const TOKENS = 3_000
const CONSTANT = 0.2
/**
 * Content is learned from short lessons first, three times as many in the same time; how conversations go on,
 * hints and tastes come after; a second, gentler round settles what is still wrong.
 * `peak`: share of the full learning rates. `lessons`: the share of bare exchanges, before and after `turn`.
 */
export type Round = { steps: number; peak: number; turn: number; lessons: readonly [number, number] }
export const ROUNDS: readonly Round[] = [
  { steps: 4_300, peak: 1, turn: 0.35, lessons: [0.9, 0.25] },
  { steps: 1_500, peak: 0.5, turn: 0, lessons: [0.6, 0.6] },
]
const RATE = { muon: 0.02, adam: 3e-3 } as const
const SETTINGS = { momentum: 0.95, beta1: 0.9, beta2: 0.95, eps: 1e-8 } as const

export const config = (vocabulary: number): ModelConfig => ({
  hiddenSize: SHAPE.width,
  intermediateSize: SHAPE.feedForward,
  layers: SHAPE.layers,
  heads: SHAPE.heads,
  kvHeads: SHAPE.heads,
  headDim: SHAPE.headWidth,
  vocabulary,
  contextLength: SHAPE.context,
  ropeTheta: SHAPE.theta,
  rmsEps: SHAPE.epsilon,
  qkNorm: true,
  attentionBias: false,
  tiedHead: true,
})

/** The round of a step that counts from 0, and its place in it. */
function placeOf(step: number, rounds: readonly Round[]): { round: Round; at: number } {
  let at = step
  for (const round of rounds) {
    if (at < round.steps) return { round, at }
    at -= round.steps
  }
  const last = rounds[rounds.length - 1]
  if (last === undefined) throw new RangeError('no rounds')
  return { round: last, at: last.steps }
}

/** Share of the full learning rates at a step that counts from 1: constant, then linearly to 0 after the round's last. */
export function schedule(step: number, rounds: readonly Round[]): number {
  const { round, at } = placeOf(step - 1, rounds)
  return round.peak * Math.min(1, (round.steps - at) / (round.steps * (1 - CONSTANT)))
}

/** Share of bare exchanges after so many batches. */
export function lessons(batches: number, rounds: readonly Round[]): number {
  const { round, at } = placeOf(batches, rounds)
  return round.lessons[at < round.steps * round.turn ? 0 : 1]
}

type Named = Map<string, WeightTensor>
type Progress = { step: number; weights: Named; moments: Named }

const f32 = (tensors: Named, prefix = ''): [string, Tensor][] =>
  [...tensors].map(([name, { shape, data }]) => [prefix + name, { dtype: 'F32', shape, data }])

/** Whole or not at all: written beside and renamed. */
function replace(file: string, bytes: Uint8Array | string): void {
  writeFileSync(`${file}.new`, bytes)
  renameSync(`${file}.new`, file)
}

function saveProgress(file: string, run: string, { step, weights, moments }: Progress): void {
  replace(
    file,
    writeSafetensors(
      new Map([...f32(weights, 'weights.'), ...f32(moments, 'moments.')]),
      new Map([
        ['run', run],
        ['step', String(step)],
      ]),
    ),
  )
}

/** Null where there is no checkpoint of this very run. */
function readProgress(file: string, run: string): Progress | null {
  if (!existsSync(file)) return null
  const { metadata, tensors } = readSafetensorsWithMetadata(readFileSync(file), file)
  if (metadata.get('run') !== run) return null
  const under = (prefix: string): Named =>
    new Map(
      [...tensors]
        .filter(([name]) => name.startsWith(prefix))
        .map(([name, { shape, data }]) => [name.slice(prefix.length), { shape, data: data as Float32Array }]),
    )
  return { step: Number(metadata.get('step')), weights: under('weights.'), moments: under('moments.') }
}

/** The weights in 16 bits, which is what ships. */
function modelBytes(weights: Named): Uint8Array {
  return writeSafetensors(
    new Map(
      [...weights].map(([name, { shape, data }]): [string, Tensor] => [
        name,
        { dtype: 'F16', shape, data: encodeF16(data) },
      ]),
    ),
    new Map([['format', 'pt']]),
  )
}

export type Options = {
  rounds: readonly Round[]
  threads: number
  seed: number
  out: string
  fresh: boolean
  checkpointEvery: number
  tokens: number
  report: (step: number, loss: number, seconds: number) => void
}

/** Trains, writes the folder, and gives the sha256 of `model.safetensors`. */
export async function pretrain(options: Options): Promise<string> {
  const { rounds, threads, seed, out, tokens } = options
  const steps = rounds.reduce((sum, round) => sum + round.steps, 0)
  const bpe = trainedBpe()
  const files = folderFiles(bpe)
  const shape = config(bpe.vocabulary.length)
  mkdirSync(out, { recursive: true })
  const work = path.join(out, '.pretrain')
  mkdirSync(work, { recursive: true })
  const checkpoint = path.join(work, 'checkpoint.safetensors')
  const backend = await createOnnxBackend({ threads })
  const digest = createHash('sha256').update(files['tokenizer.json']!).digest('hex').slice(0, 16)
  const run = JSON.stringify({ rounds, threads, seed, tokens, build: backend.build, tokenizer: digest })
  const training = await compilePretraining(backend, shape, muonAdam(shape, SETTINGS))
  let state: Progress = (options.fresh ? null : readProgress(checkpoint, run)) ?? {
    step: 0,
    weights: initialWeights(shape, seed),
    moments: zeroMoments(shape),
  }
  const stream = batches(encoder(bpe), seed, tokens, (given) => lessons(given, rounds))
  for (let skipped = 0; skipped < state.step; skipped++) stream.next()
  const began = performance.now()
  while (state.step < steps) {
    const step = state.step + 1
    const share = schedule(step, rounds)
    const rate = (value: number): { shape: number[]; data: Float32Array } => ({
      shape: [],
      data: Float32Array.of(value),
    })
    const { loss, outputs } = await training.step(state.weights, stream.next().value, {
      'muon.rate': rate(RATE.muon * share),
      'adam.rate': rate(adamRate(RATE.adam * share, step, SETTINGS)),
      ...Object.fromEntries(state.moments),
    })
    if (!Number.isFinite(loss)) throw new Error(`the loss of step ${step} is ${loss}`)
    const weights: Named = new Map()
    const moments: Named = new Map()
    for (const [name, tensor] of Object.entries(outputs)) {
      if (name.startsWith('weight:')) weights.set(name.slice('weight:'.length), tensor)
      else moments.set(name, tensor)
    }
    state = { step, weights, moments }
    if (step % options.checkpointEvery === 0) saveProgress(checkpoint, run, state)
    options.report(step, loss, (performance.now() - began) / 1000)
  }
  await training.dispose()
  await backend.dispose()
  for (const [name, text] of Object.entries(files)) replace(path.join(out, name), text)
  const bytes = modelBytes(state.weights)
  replace(path.join(out, 'model.safetensors'), bytes)
  rmSync(work, { recursive: true })
  return createHash('sha256').update(bytes).digest('hex')
}

/** A bar on a terminal, a line now and then elsewhere. */
function progress(steps: number): Options['report'] {
  let mean = 0,
    weight = 0
  let first = 0
  return (step, loss, seconds) => {
    if (first === 0) first = step
    mean = mean * 0.95 + loss * 0.05
    weight = weight * 0.95 + 0.05
    const left = Math.round((seconds / (step - first + 1)) * (steps - step))
    const text = `step ${step}/${steps}  loss ${(mean / weight).toFixed(4)}  ${Math.round(seconds)} s, ${left} s left`
    if (process.stdout.isTTY)
      process.stdout.write(`\r[${'#'.repeat(Math.round((30 * step) / steps)).padEnd(30, '.')}] ${text}  `)
    else if (step % 25 === 0 || step === steps) console.log(text)
  }
}

if (isMain(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      steps: { type: 'string' },
      threads: { type: 'string' },
      seed: { type: 'string' },
      out: { type: 'string' },
      fresh: { type: 'boolean' },
    },
  })
  // A short run for a look: one round of the first kind.
  const rounds = values.steps === undefined ? ROUNDS : [{ ...ROUNDS[0]!, steps: Number(values.steps) }]
  const cpu = process.cpuUsage()
  const sha256 = await pretrain({
    rounds,
    threads: Number(values.threads ?? 2),
    seed: Number(values.seed ?? 1),
    fresh: values.fresh ?? false,
    checkpointEvery: 50,
    tokens: TOKENS,
    out: values.out ?? fileURLToPath(new URL('../', import.meta.url)),
    report: progress(rounds.reduce((sum, round) => sum + round.steps, 0)),
  })
  const { user, system } = process.cpuUsage(cpu)
  console.log(`\nmodel.safetensors ${sha256}, ${Math.round((user + system) / 1e6)} CPU seconds`)
}
