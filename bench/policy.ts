/**
 * Decoding and a train step of the engines, compared with PyTorch at its better number of threads: same weights,
 * adapter and shapes, interleaved rounds of one run. Decoding is greedy; the report states whether the ids are the
 * same, and the difference of the gradient norms. The engine tfjs-node is measured where it is built.
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
import { findBuilt } from '@instar/policy/runtime/tfjs-node/build-folder'
import { compileTraining, type MicroBatchResult, type Training } from '@instar/policy/training'
import { weightShapes, type ModelConfig, type Weights } from '@instar/policy/weights'
import { fetchSmolLM2 } from '../cli/src/smollm2.ts'
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

/** `turns` of `prompt` + `completion` tokens; gradients are summed over micro-batches of at most `positions` tokens. */
type TrainShape = { turns: number; prompt: number; completion: number; positions: number }
/** `steps`: decoded tokens of a round. `targets`: least ratio to PyTorch, for each number of rows of BATCHES. */
type Subject = {
  name: string
  path: string
  engines: EngineChoice[]
  steps: number
  rounds: number
  train: TrainShape
  targets: { decode: (number | null)[]; train: number | null }
}

/** Rates in `unit`. */
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
  /** Ratio of the fastest steps, which other work on the machine affects least. */
  ratioFastest: number | null
  rounds: number
  ratioBf16: number | null
  /**
   * Fastest read of the float32 weights in the same rounds, ms: a lower bound of a step if they do not fit in a cache.
   * A step of one row with 4-bit weights reads less.
   */
  floorMs: number | null
  /** `floorMs` / fastest step of onnx. */
  ofFloor: number | null
  /**
   * Time of a step that reaches the target, by PyTorch's fastest step, ms; unreachable on this machine if below
   * `floorMs`.
   */
  targetMs: number | null
  target: string | null
  /** Whether ids or gradient norms agree with PyTorch's. */
  same: string | null
}
export type Report = { name: string; machine: string; peer: string | null; rows: PolicyRow[] }

type PolicyOptions = {
  logLine?: (line: string) => void
  quick?: boolean
  models?: readonly string[]
  peer?: boolean
}

const subjects = async (options: PolicyOptions): Promise<Subject[]> => {
  const isSelected = (name: string): boolean => !options.models || options.models.includes(name)
  const rounds = options.quick ? 3 : 9
  const native: EngineChoice[] = findBuilt() ? ['tfjs-node'] : []
  const list: Subject[] = []
  if (isSelected('tiny'))
    list.push({
      name: 'tiny',
      path: join(ROOT, 'models/tiny'),
      engines: ['onnx', 'wasm', ...native],
      steps: 64,
      rounds,
      train: { turns: 16, prompt: 49, completion: 32, positions: 256 },
      targets: { decode: [null, null, null], train: null },
    })
  if (isSelected('SmolLM2-135M'))
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

/** An adapter with random values in both matrices, so that both have a gradient. */
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

/** Writes the weights as one float32 safetensors file, since the peer does not read GGUF. Returns its path. */
const exportWeights = (name: string, sha256: string, config: ModelConfig, weights: Weights): string => {
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

/** Token ids, and for each token of the completion its old log-prob, advantage and weight. */
type Turn = { prompt: number[]; completion: number[]; old: number[]; advantage: number[]; weight: number[] }

/** One engine of Instar. */
class InstarEngine {
  readonly runtime: Runtime
  private training: Training | null = null
  private readonly lora: Lora

  constructor(runtime: Runtime, lora: Lora) {
    this.runtime = runtime
    this.lora = lora
    runtime.setAdapterSlot(SLOT, lora)
  }

  /** `steps` greedy steps after the prompts, which are not measured. */
  async decode(prompts: readonly number[][], steps: number, adapter: boolean): Promise<DecodeReply> {
    const { runtime } = this
    const B = prompts.length
    const cache = runtime.createCache(B, PROMPT + steps)
    const rowSlots = prompts.map(() => (adapter ? SLOT : null))
    const step = async (ids: Int32Array, T: number): Promise<Int32Array> => {
      const { logits, vocabulary: V } = await runtime.decodeStep({ ids, T, cache, rowSlots })
      return Int32Array.from(prompts, (_, row) => argmax(logits.subarray(row * V, (row + 1) * V)))
    }
    let last = await step(Int32Array.from(prompts.flat()), PROMPT)
    const ids = Array.from(last, (id) => [id])
    const seconds: number[] = []
    for (let at = 0; at < steps; at++) {
      const startedAt = performance.now()
      last = await step(last, 1)
      seconds.push((performance.now() - startedAt) / 1000)
      last.forEach((id, row) => ids[row]?.push(id))
    }
    return { seconds: seconds.reduce((sum, value) => sum + value, 0), fastest: Math.min(...seconds), ids }
  }

  /** Random turns with the log-probs of this engine. */
  async createTurns(config: ModelConfig, shape: TrainShape): Promise<Turn[]> {
    const prompts = Array.from({ length: shape.turns }, (_, at) => ({
      prompt: randomIds(config, 100 + at, shape.prompt),
      completion: randomIds(config, 200 + at, shape.completion),
      temperature: 1,
      slot: SLOT,
    }))
    const turns: Turn[] = []
    for (const group of microBatches(
      prompts,
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

  /** Forward, backward and one Adam step on a new copy of the adapter. */
  async train(config: ModelConfig, turns: readonly Turn[], positions: number): Promise<TrainReply> {
    this.training ??= await compileTraining(this.runtime.backend, config, this.runtime.constants, {
      rank: RANK,
      alpha: ALPHA,
      clipLow: CLIP,
      clipHigh: CLIP,
      topK: 0,
    })
    const adapter = new Map(
      [...loraTensors(config, this.lora)].map(([name, { shape, data }]) => [name, { shape, data: data.slice() }]),
    )
    const state = initialAdam(adapter)
    const startedAt = performance.now()
    const gradients = new Map([...adapter].map(([name, { data }]) => [name, new Float32Array(data.length)]))
    let loss = 0
    for (const group of microBatches(
      turns,
      ({ prompt, completion }) => prompt.length + completion.length - 1,
      positions,
    )) {
      const { ids, T, places } = padded(group)
      const none = { places: [], reference: { ids: null, logp: new Float32Array() }, weight_R: [] }
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
    const seconds = (performance.now() - startedAt) / 1000
    return { seconds, fastest: seconds, loss, gradNorm }
  }
}

/** Index of the largest value. */
const argmax = (values: Float32Array): number => {
  let best = 0
  for (let at = 1; at < values.length; at++) if (values[at]! > values[best]!) best = at
  return best
}

/** One implementation in one case. `name`: of the engine, or `DTYPE THREADS` of PyTorch. */
type Entrant<Reply> = { name: string; run: () => Promise<Reply> }

/** By name of the entrant: seconds of each round, the fastest step, the first reply. */
type Rounds<Reply> = { seconds: Map<string, number[]>; fastest: Map<string, number>; first: Map<string, Reply> }

/**
 * Runs every entrant in each round: at least MIN_ROUNDS, at most `count` rounds, and no new round after CASE_MS. Of
 * entrants that differ in their threads only (`float32 1`, `float32 2`) just the one that is faster in a trial is
 * measured.
 */
const runRounds = async <Reply extends { seconds: number; fastest: number }>(
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
  const startedAt = performance.now()
  for (let round = 0; round < count && (round < MIN_ROUNDS || performance.now() - startedAt < CASE_MS); round++) {
    for (const { name, run } of chosen) {
      const reply = await run()
      seconds.get(name)!.push(reply.seconds)
      fastest.set(name, Math.min(reply.fastest, fastest.get(name) ?? Infinity))
    }
  }
  return { seconds, fastest, first }
}

/** The measured entrant of PyTorch with this dtype, or `read`. */
const torchEntrant = <Reply>(
  { seconds, fastest }: Rounds<Reply>,
  dtype: string,
): { threads: number; seconds: number[]; fastest: number } | null => {
  const entrant = [...seconds].find(([name]) => name.startsWith(`${dtype} `))
  if (!entrant) return null
  const [name, rounds] = entrant
  return { threads: Number(name.split(' ')[1]), seconds: rounds, fastest: fastest.get(name)! }
}

const row = <Reply>(
  fixed: Pick<PolicyRow, 'model' | 'what' | 'rows' | 'adapter' | 'unit' | 'same'>,
  amount: number,
  measured: Rounds<Reply>,
  target: number | null,
): PolicyRow => {
  const onnx = measured.seconds.get('onnx')!
  const rate = (values: readonly number[] | null | undefined): number | null =>
    values ? rounded(amount / median(values)) : null
  const fp32 = torchEntrant(measured, 'float32')
  const bf16 = torchEntrant(measured, 'bfloat16')
  const floor = torchEntrant(measured, 'read')
  const ratioTo = (peer: { seconds: number[] } | null): number | null =>
    peer ? rounded(median(onnx.map((value, at) => peer.seconds[at]! / value))) : null
  const tfjsNode = measured.seconds.get('tfjs-node')
  return {
    ...fixed,
    onnx: rate(onnx)!,
    wasm: rate(measured.seconds.get('wasm')),
    tfjsNode: rate(tfjsNode),
    tfjsNodeToOnnx: tfjsNode ? rounded(median(onnx.map((value, at) => value / tfjsNode[at]!))) : null,
    torch: rate(fp32?.seconds),
    torchThreads: fp32?.threads ?? null,
    torchBf16: rate(bf16?.seconds),
    ratio: ratioTo(fp32),
    ratioFastest: fp32 ? rounded(fp32.fastest / measured.fastest.get('onnx')!) : null,
    ratioBf16: ratioTo(bf16),
    rounds: onnx.length,
    floorMs: floor && rounded(1000 * floor.fastest),
    ofFloor: floor && rounded(floor.fastest / measured.fastest.get('onnx')!),
    targetMs: target !== null && fp32 && floor ? rounded((1000 * fp32.fastest) / target) : null,
    target: target === null ? null : `≥ ${target}`,
  }
}

const measureSubject = async (
  subject: Subject,
  peer: Peer | null,
  logLine: (line: string) => void,
): Promise<PolicyRow[]> => {
  const { config, weights } = loadWeights(subject.path)
  const { sha256 } = await openModel(subject.path)
  const lora = adapterOf(config)
  const engines = new Map<string, InstarEngine>()
  for (const engine of subject.engines)
    engines.set(
      engine,
      new InstarEngine(
        await createRuntime({ config, weights, base: sha256, engine, threads: availableParallelism() }),
        lora,
      ),
    )
  const file = join(CACHE, 'bench-adapter.safetensors')
  writeFileSync(file, writeAdapter(lora, 'bench').weights)
  if (peer)
    await peer.request({
      op: 'load',
      weights: exportWeights(subject.name, sha256, config, weights),
      adapter: file,
      config: { ...config, positions: 512, rank: RANK, alpha: ALPHA },
    })
  const threads = [...new Set([1, availableParallelism()])]
  const torchEntrants = <Reply>(name: string, request: Record<string, unknown>): Entrant<Reply>[] =>
    peer
      ? threads.map((count) => ({
          name: `${name} ${count}`,
          run: async () => (await peer.request({ ...request, threads: count })) as Reply,
        }))
      : []
  const entrants = <Reply>(
    run: (engine: InstarEngine) => Promise<Reply>,
    request: Record<string, unknown>,
  ): Entrant<Reply>[] => [
    ...[...engines].map(([name, engine]) => ({ name, run: () => run(engine) })),
    ...['float32', 'bfloat16'].flatMap((dtype) => torchEntrants<Reply>(dtype, { ...request, dtype })),
  ]
  const rows: PolicyRow[] = []
  const addRow = (added: PolicyRow): void => {
    rows.push(added)
    logLine(
      `  ${added.onnx} tokens/s${added.tfjsNode === null ? '' : `, tfjs-node ${added.tfjsNode}`}, PyTorch ${added.torch ?? 'not measured'}; ratio ${added.ratio ?? '-'}, of the fastest steps ${added.ratioFastest ?? '-'}${added.ofFloor === null ? '' : `; reading the weights (${added.floorMs} ms) takes ${added.ofFloor} of the fastest step`}`,
    )
  }
  try {
    for (const adapter of [false, true]) {
      for (const [at, B] of BATCHES.entries()) {
        logLine(`${subject.name}: decode, ${B} row${B === 1 ? '' : 's'}${adapter ? ', with an adapter' : ''}`)
        const prompts = Array.from({ length: B }, (_, which) => randomIds(config, 1 + which, PROMPT))
        const measured = await runRounds<DecodeReply>(
          [
            ...entrants((engine) => engine.decode(prompts, subject.steps, adapter), {
              op: 'decode',
              prompts,
              steps: subject.steps,
              adapter,
            }),
            ...torchEntrants<DecodeReply>('read', { op: 'read', steps: subject.steps }),
          ],
          subject.rounds,
        )
        const torch = measured.first.get('float32 1')
        const same = torch
          ? JSON.stringify(torch.ids) === JSON.stringify(measured.first.get('onnx')?.ids)
            ? 'same ids'
            : 'different ids'
          : null
        addRow(
          row(
            { model: subject.name, what: 'decode', rows: B, adapter, unit: 'tokens/s', same },
            B * subject.steps,
            measured,
            adapter ? null : subject.targets.decode[at]!,
          ),
        )
      }
    }
    const { turns: count, prompt, completion, positions } = subject.train
    logLine(`${subject.name}: train step, ${count} turns of ${prompt} + ${completion} tokens`)
    const turns = await engines.get('onnx')!.createTurns(config, subject.train)
    const request = {
      op: 'train',
      rows: turns.map((turn) => ({ ids: [...turn.prompt, ...turn.completion], start: turn.prompt.length })),
      old: turns.flatMap((turn) => turn.old),
      advantage: turns.flatMap((turn) => turn.advantage),
      weight: turns.flatMap((turn) => turn.weight),
      clip: CLIP,
      learningRate: ADAM.learningRate,
      betas: [ADAM.beta1, ADAM.beta2],
    }
    const measured = await runRounds<TrainReply>(
      entrants((engine) => engine.train(config, turns, positions), request),
      subject.rounds,
    )
    const [onnx, torch] = [measured.first.get('onnx'), measured.first.get('float32 1')]
    const same =
      onnx && torch
        ? `gradient norm within ${rounded(Math.abs(onnx.gradNorm / torch.gradNorm - 1)).toExponential(0)}`
        : null
    addRow(
      row(
        { model: subject.name, what: 'train step', rows: count, adapter: true, unit: 'tokens/s', same },
        count * (prompt + completion - 1),
        measured,
        subject.targets.train,
      ),
    )
    return rows
  } finally {
    for (const engine of engines.values()) await engine.runtime.close()
  }
}

export const bench = async (options: PolicyOptions = {}): Promise<Report> => {
  const logLine = options.logLine ?? (() => undefined)
  const measuredOn = machine()
  const peer = options.peer === false ? null : await startTorch(join(CACHE, 'torch'), logLine)
  try {
    const rows: PolicyRow[] = []
    for (const subject of await subjects(options)) rows.push(...(await measureSubject(subject, peer, logLine)))
    return { name: 'policy', machine: measuredOn, peer: peer?.version ?? null, rows }
  } finally {
    peer?.stop()
  }
}

if (import.meta.main) {
  const args = process.argv.slice(2)
  const models = args.filter((arg) => !arg.startsWith('--'))
  const report = await bench({
    logLine: (line) => {
      console.error(line)
    },
    quick: args.includes('--quick'),
    peer: !args.includes('--no-peer'),
    ...(models.length > 0 ? { models } : {}),
  })
  if (args.includes('--json')) console.log(JSON.stringify(report))
  else {
    console.log(`${report.machine}; peer ${report.peer ?? 'none'}`)
    console.table(report.rows)
  }
}
