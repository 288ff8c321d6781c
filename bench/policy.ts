/**
 * Decoding and one train step on our engines against PyTorch with its best number of threads: the same weights,
 * adapter and shapes, one run, interleaved rounds. Both sides draw greedily; that they draw the same ids and find
 * the same loss and gradient norm is checked, and said. The engine tfjs-node takes part where it is built.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { adamStep, globalNorm, initialAdam } from '@instar/policy/adam'
import { openModel } from '@instar/policy'
import { loadWeights } from '@instar/policy/checkpoints/open'
import { writeAdapter, type Lora } from '@instar/policy/checkpoints/peft'
import { writeSafetensors } from '@instar/policy/checkpoints/safetensors'
import { completionLogprobs, microBatches, ownLogprobs, padded } from '@instar/policy/forward'
import { initialLora, loraTensors } from '@instar/policy/lora'
import { normal, uniform } from '@instar/policy/random'
import type { EngineChoice } from '@instar/policy/runtime/engines'
import { createRuntime, type Runtime } from '@instar/policy/runtime/runtime'
import { findBuilt } from '@instar/policy/runtime/tfjs-node/place'
import { compileTraining, type MicroBatchResult, type Training } from '@instar/policy/training'
import { weightShapes, type ModelConfig, type Weights } from '@instar/policy/weights'
import { fetchSmolLM2 } from '../test/model/fetch.ts'
import { machine, median, rounded } from './machine.ts'
import { startTorch, type DecodeReply, type Peer, type TrainReply } from './peers/torch.ts'

const ROOT = resolve(import.meta.dirname, '..')
const CACHE = join(ROOT, '.cache')
const SLOT = 0
const RANK = 8
const ALPHA = 16
const CLIP = 0.2
const ADAM = { learningRate: 1e-3, beta1: 0.9, beta2: 0.95 }
const PROMPT = 41
const BATCHES = [1, 4, 8]
const MIN_ROUNDS = 3
const CASE_MS = 30_000

/** `turns` of `prompt` + `completion` tokens, gradients summed over micro-batches of at most `positions`. */
type TrainShape = { turns: number; prompt: number; completion: number; positions: number }
type Subject = {
  name: string
  path: string
  engines: EngineChoice[]
  steps: number
  rounds: number
  train: TrainShape
  targets: { decode: (number | null)[]; train: number | null }
}

type PolicyRow = {
  model: string
  what: string
  rows: number
  adapter: boolean
  unit: string
  onnx: number
  wasm: number | null
  tfjsNode: number | null
  /** Median over the rounds of tfjs-node / onnx in the same round. */
  tfjsNodeToOnnx: number | null
  torch: number | null
  torchThreads: number | null
  torchBf16: number | null
  /** Median over the rounds of onnx / torch in the same round. */
  ratio: number | null
  /** Of the fastest single steps: what nobody interrupted, for a machine that is not idle. */
  ratioFastest: number | null
  rounds: number
  ratioBf16: number | null
  /** Reading the float32 weights once, the fastest of the same rounds, in ms: no step that reads them is faster where they fit no cache. One row of a model in 4-bit blocks reads less. */
  floorMs: number | null
  /** That floor / our fastest step. */
  ofFloor: number | null
  /** What the target asks of a step, in ms, by the peer's fastest: below `floorMs` it is out of reach on this machine. */
  targetMs: number | null
  target: string | null
  same: string | null
}
export type Report = { name: string; machine: string; peer: string | null; rows: PolicyRow[] }

type PolicyOptions = {
  say?: (line: string) => void
  quick?: boolean
  models?: readonly string[]
  peer?: boolean
}

const subjects = async (options: PolicyOptions): Promise<Subject[]> => {
  const wanted = (name: string): boolean => !options.models || options.models.includes(name)
  const rounds = options.quick ? 3 : 9
  const native: EngineChoice[] = findBuilt() ? ['tfjs-node'] : []
  const list: Subject[] = []
  if (wanted('tiny'))
    list.push({
      name: 'tiny',
      path: join(ROOT, 'models/tiny'),
      engines: ['onnx', 'wasm', ...native],
      steps: 64,
      rounds,
      train: { turns: 16, prompt: 49, completion: 32, positions: 256 },
      targets: { decode: [null, null, null], train: null },
    })
  if (wanted('SmolLM2-135M'))
    list.push({
      name: 'SmolLM2-135M',
      path: await fetchSmolLM2(CACHE),
      engines: ['onnx', ...native],
      steps: options.quick ? 6 : 12,
      rounds,
      train: { turns: 2, prompt: 65, completion: 64, positions: 256 },
      targets: { decode: [1, 1.5, 2], train: 1.1 },
    })
  return list
}

/** An adapter with something in both matrices, so that both have a gradient. */
const adapterOf = (config: ModelConfig): Lora => {
  const next = normal(2)
  const lora = initialLora(config, RANK, ALPHA, 1)
  return {
    ...lora,
    modules: new Map(
      [...lora.modules].map(([name, { a, b }]) => [
        name,
        { a, b: { shape: b.shape, data: Float32Array.from(b.data, () => 0.01 * next()) } },
      ]),
    ),
  }
}

const randomIds = (config: ModelConfig, seed: number, count: number): number[] => {
  const next = uniform(seed)
  return Array.from({ length: count }, () => Math.floor(next() * config.vocabulary))
}

/** The weights as one float32 safetensors file, for a peer that reads no GGUF. */
const exported = (name: string, sha256: string, config: ModelConfig, weights: Weights): string => {
  const file = join(CACHE, `bench-${name}-${sha256.slice(0, 16)}.safetensors`)
  if (!existsSync(file)) {
    mkdirSync(CACHE, { recursive: true })
    writeFileSync(
      file,
      writeSafetensors(
        new Map(weightShapes(config).map(([tensor]) => [tensor, { dtype: 'F32' as const, ...weights.get(tensor) }])),
      ),
    )
  }
  return file
}

type Turn = { prompt: number[]; completion: number[]; old: number[]; advantage: number[]; weight: number[] }

/** Ours, one engine: seconds of greedy steps after a prompt, and of one train step. */
class Ours {
  readonly runtime: Runtime
  private training: Training | null = null
  private readonly lora: Lora

  constructor(runtime: Runtime, lora: Lora) {
    this.runtime = runtime
    this.lora = lora
    runtime.setAdapterSlot(SLOT, lora)
  }

  async decode(prompts: readonly number[][], steps: number, adapter: boolean): Promise<DecodeReply> {
    const { runtime } = this
    const B = prompts.length
    const cache = runtime.createCache(B, PROMPT + steps)
    const rowSlots = prompts.map(() => (adapter ? SLOT : null))
    const step = async (ids: Int32Array, T: number): Promise<Int32Array> => {
      const { logits, vocabulary: V } = await runtime.decodeStep({ ids, T, cache, rowSlots })
      return Int32Array.from(prompts, (_, row) => highest(logits.subarray(row * V, (row + 1) * V)))
    }
    let last = await step(Int32Array.from(prompts.flat()), PROMPT)
    const ids = Array.from(last, (id) => [id])
    const seconds: number[] = []
    for (let at = 0; at < steps; at++) {
      const began = performance.now()
      last = await step(last, 1)
      seconds.push((performance.now() - began) / 1000)
      last.forEach((id, row) => ids[row]?.push(id))
    }
    return { seconds: seconds.reduce((sum, value) => sum + value, 0), fastest: Math.min(...seconds), ids }
  }

  async turns(config: ModelConfig, shape: TrainShape): Promise<Turn[]> {
    const bare = Array.from({ length: shape.turns }, (_, at) => ({
      prompt: randomIds(config, 100 + at, shape.prompt),
      completion: randomIds(config, 200 + at, shape.completion),
      temperature: 1,
      slot: SLOT,
    }))
    const turns: Turn[] = []
    for (const group of microBatches(
      bare,
      ({ prompt, completion }) => prompt.length + completion.length,
      shape.positions,
    )) {
      const rows = await completionLogprobs(this.runtime, group)
      group.forEach(({ prompt, completion }, at) => {
        const sign = turns.length % 2 === 0 ? 1 : -1
        turns.push({
          prompt,
          completion,
          old: [...ownLogprobs(rows[at]!, completion)],
          advantage: completion.map(() => sign),
          weight: completion.map(() => 1 / (shape.turns * shape.completion)),
        })
      })
    }
    return turns
  }

  /** Forward, backward and one Adam step of a fresh copy of the adapter. */
  async train(config: ModelConfig, turns: readonly Turn[], positions: number): Promise<TrainReply> {
    this.training ??= await compileTraining(this.runtime.backend, config, this.runtime.constants, {
      rank: RANK,
      alpha: ALPHA,
      clipLow: CLIP,
      clipHigh: CLIP,
    })
    const adapter = new Map(
      [...loraTensors(config, this.lora)].map(([name, { shape, data }]) => [name, { shape, data: data.slice() }]),
    )
    const state = initialAdam(adapter)
    const began = performance.now()
    const gradients = new Map([...adapter].map(([name, { data }]) => [name, new Float32Array(data.length)]))
    let loss = 0
    for (const group of microBatches(
      turns,
      ({ prompt, completion }) => prompt.length + completion.length - 1,
      positions,
    )) {
      const { ids, T, places } = padded(group)
      const none = { places: [], reference_RV: new Float32Array(), weight_R: [] }
      const result: MicroBatchResult = await this.training.run(adapter, {
        B: group.length,
        T,
        ids,
        rows: places,
        targets: group.flatMap((turn) => turn.completion),
        inverseTemperature: places.map(() => 1),
        old: group.flatMap((turn) => turn.old),
        advantage: group.flatMap((turn) => turn.advantage),
        weight: group.flatMap((turn) => turn.weight),
        opd: none,
        kl: none,
      })
      loss += result.loss
      for (const [name, sum] of gradients) {
        const part = result.gradients.get(name)!
        for (let at = 0; at < sum.length; at++) sum[at] = sum[at]! + part[at]!
      }
    }
    const gradNorm = globalNorm(gradients)
    adamStep(adapter, gradients, gradNorm > 1 ? 1 / gradNorm : 1, state, ADAM)
    const seconds = (performance.now() - began) / 1000
    return { seconds, fastest: seconds, loss, gradNorm }
  }
}

const highest = (values: Float32Array): number => {
  let best = 0
  for (let at = 1; at < values.length; at++) if (values[at]! > values[best]!) best = at
  return best
}

/** Who competes: a name, and one measurement of a case. */
type Entrant<Reply> = { name: string; run: () => Promise<Reply> }

/** `seconds` and the fastest single step of each entrant, and its first reply. */
type Rounds<Reply> = { seconds: Map<string, number[]>; fastest: Map<string, number>; first: Map<string, Reply> }

/**
 * Entrants in turn within a round; at least MIN_ROUNDS, then until there are `count` or the time is up. Of entrants
 * that are one engine with several settings (`float32 1`, `float32 2`) only the one that was fastest in a trial after
 * its warm-up goes on.
 */
const rounds = async <Reply extends { seconds: number; fastest: number }>(
  entrants: readonly Entrant<Reply>[],
  count: number,
): Promise<Rounds<Reply>> => {
  const first = new Map<string, Reply>()
  const trial = new Map<string, number>()
  for (const { name, run } of entrants) {
    first.set(name, await run())
    trial.set(name, (await run()).fastest)
  }
  const engineOf = (name: string): string => name.split(' ')[0]!
  const chosen = entrants.filter(({ name }) =>
    entrants.every((other) => engineOf(other.name) !== engineOf(name) || trial.get(name)! <= trial.get(other.name)!),
  )
  const seconds = new Map<string, number[]>(chosen.map(({ name }) => [name, []]))
  const fastest = new Map<string, number>()
  const began = performance.now()
  for (let round = 0; round < count && (round < MIN_ROUNDS || performance.now() - began < CASE_MS); round++) {
    for (const { name, run } of chosen) {
      const reply = await run()
      seconds.get(name)!.push(reply.seconds)
      fastest.set(name, Math.min(reply.fastest, fastest.get(name) ?? Infinity))
    }
  }
  return { seconds, fastest, first }
}

/** The PyTorch entrant of one dtype, or of `read`, that went on. */
const best = <Reply>(
  { seconds, fastest }: Rounds<Reply>,
  dtype: string,
): { threads: number; seconds: number[]; fastest: number } | null => {
  const [found] = [...seconds].filter(([name]) => name.startsWith(`${dtype} `))
  return found ? { threads: Number(found[0].split(' ')[1]), seconds: found[1], fastest: fastest.get(found[0])! } : null
}

const row = <Reply>(
  fixed: Pick<PolicyRow, 'model' | 'what' | 'rows' | 'adapter' | 'unit' | 'same'>,
  amount: number,
  found: Rounds<Reply>,
  target: number | null,
): PolicyRow => {
  const ours = found.seconds.get('onnx')!
  const rate = (values: readonly number[] | null | undefined): number | null =>
    values ? rounded(amount / median(values)) : null
  const fp32 = best(found, 'float32')
  const bf16 = best(found, 'bfloat16')
  const floor = best(found, 'read')
  const against = (peer: { seconds: number[] } | null): number | null =>
    peer ? rounded(median(ours.map((value, at) => peer.seconds[at]! / value))) : null
  const native = found.seconds.get('tfjs-node')
  return {
    ...fixed,
    onnx: rate(ours)!,
    wasm: rate(found.seconds.get('wasm')),
    tfjsNode: rate(native),
    tfjsNodeToOnnx: native ? rounded(median(ours.map((value, at) => value / native[at]!))) : null,
    torch: rate(fp32?.seconds),
    torchThreads: fp32?.threads ?? null,
    torchBf16: rate(bf16?.seconds),
    ratio: against(fp32),
    ratioFastest: fp32 ? rounded(fp32.fastest / found.fastest.get('onnx')!) : null,
    ratioBf16: against(bf16),
    rounds: ours.length,
    floorMs: floor && rounded(1000 * floor.fastest),
    ofFloor: floor && rounded(floor.fastest / found.fastest.get('onnx')!),
    targetMs: target !== null && fp32 && floor ? rounded((1000 * fp32.fastest) / target) : null,
    target: target === null ? null : `≥ ${target}`,
  }
}

const one = async (subject: Subject, peer: Peer | null, say: (line: string) => void): Promise<PolicyRow[]> => {
  const { config, weights } = loadWeights(subject.path)
  const { sha256 } = await openModel(subject.path)
  const lora = adapterOf(config)
  const engines = new Map<string, Ours>()
  for (const engine of subject.engines)
    engines.set(
      engine,
      new Ours(await createRuntime({ config, weights, base: sha256, engine, threads: availableParallelism() }), lora),
    )
  const file = join(CACHE, 'bench-adapter.safetensors')
  writeFileSync(file, writeAdapter(lora, 'bench').weights)
  if (peer)
    await peer.ask({
      op: 'load',
      weights: exported(subject.name, sha256, config, weights),
      adapter: file,
      config: { ...config, positions: 512, rank: RANK, alpha: ALPHA },
    })
  const threads = [...new Set([1, availableParallelism()])]
  const asked = <Reply>(name: string, theirs: Record<string, unknown>): Entrant<Reply>[] =>
    peer
      ? threads.map((count) => ({
          name: `${name} ${count}`,
          run: async () => (await peer.ask({ ...theirs, threads: count })) as Reply,
        }))
      : []
  const entrants = <Reply>(
    ours: (engine: Ours) => Promise<Reply>,
    theirs: Record<string, unknown>,
  ): Entrant<Reply>[] => [
    ...[...engines].map(([name, engine]) => ({ name, run: () => ours(engine) })),
    ...['float32', 'bfloat16'].flatMap((dtype) => asked<Reply>(dtype, { ...theirs, dtype })),
  ]
  const rows: PolicyRow[] = []
  const note = (made: PolicyRow): void => {
    rows.push(made)
    say(
      `  ${made.onnx} tokens/s${made.tfjsNode === null ? '' : `, tfjs-node ${made.tfjsNode}`}, PyTorch ${made.torch ?? 'not here'}; ratio ${made.ratio ?? '-'}, of the fastest steps ${made.ratioFastest ?? '-'}${made.ofFloor === null ? '' : `; ${made.ofFloor} of what reading the weights allows (${made.floorMs} ms)`}`,
    )
  }
  try {
    for (const adapter of [false, true]) {
      for (const [at, B] of BATCHES.entries()) {
        say(`${subject.name}: decode, ${B} row${B === 1 ? '' : 's'}${adapter ? ', with an adapter' : ''}`)
        const prompts = Array.from({ length: B }, (_, which) => randomIds(config, 1 + which, PROMPT))
        const found = await rounds<DecodeReply>(
          [
            ...entrants((engine) => engine.decode(prompts, subject.steps, adapter), {
              op: 'decode',
              prompts,
              steps: subject.steps,
              adapter,
            }),
            ...asked<DecodeReply>('read', { op: 'read', steps: subject.steps }),
          ],
          subject.rounds,
        )
        const theirs = found.first.get('float32 1')
        const same = theirs
          ? JSON.stringify(theirs.ids) === JSON.stringify(found.first.get('onnx')?.ids)
            ? 'same ids'
            : 'other ids'
          : null
        note(
          row(
            { model: subject.name, what: 'decode', rows: B, adapter, unit: 'tokens/s', same },
            B * subject.steps,
            found,
            adapter ? null : subject.targets.decode[at]!,
          ),
        )
      }
    }
    const { turns: count, prompt, completion, positions } = subject.train
    say(`${subject.name}: train step, ${count} turns of ${prompt} + ${completion} tokens`)
    const turns = await engines.get('onnx')!.turns(config, subject.train)
    const theirs = {
      op: 'train',
      rows: turns.map((turn) => ({ ids: [...turn.prompt, ...turn.completion], start: turn.prompt.length })),
      old: turns.flatMap((turn) => turn.old),
      advantage: turns.flatMap((turn) => turn.advantage),
      weight: turns.flatMap((turn) => turn.weight),
      clip: CLIP,
      learningRate: ADAM.learningRate,
      betas: [ADAM.beta1, ADAM.beta2],
    }
    const found = await rounds<TrainReply>(
      entrants((engine) => engine.train(config, turns, positions), theirs),
      subject.rounds,
    )
    const [mine, other] = [found.first.get('onnx'), found.first.get('float32 1')]
    const same =
      mine && other
        ? `gradient norm within ${rounded(Math.abs(mine.gradNorm / other.gradNorm - 1)).toExponential(0)}`
        : null
    note(
      row(
        { model: subject.name, what: 'train step', rows: count, adapter: true, unit: 'tokens/s', same },
        count * (prompt + completion - 1),
        found,
        subject.targets.train,
      ),
    )
    return rows
  } finally {
    for (const engine of engines.values()) await engine.runtime.close()
  }
}

export const bench = async (options: PolicyOptions = {}): Promise<Report> => {
  const say = options.say ?? (() => undefined)
  const where = machine()
  const peer = options.peer === false ? null : await startTorch(join(CACHE, 'torch'), say)
  try {
    const rows: PolicyRow[] = []
    for (const subject of await subjects(options)) rows.push(...(await one(subject, peer, say)))
    return { name: 'policy', machine: where, peer: peer?.version ?? null, rows }
  } finally {
    peer?.stop()
  }
}

if (import.meta.main) {
  const words = process.argv.slice(2)
  const models = words.filter((word) => !word.startsWith('--'))
  const report = await bench({
    say: (line) => {
      console.error(line)
    },
    quick: words.includes('--quick'),
    peer: !words.includes('--no-peer'),
    ...(models.length > 0 ? { models } : {}),
  })
  if (words.includes('--json')) console.log(JSON.stringify(report))
  else {
    console.log(`${report.machine}; peer ${report.peer ?? 'none'}`)
    console.table(report.rows)
  }
}
