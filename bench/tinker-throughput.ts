/**
 * Updates of a line on a running training server (SkyRL, docs/gpu.md), by the trainer itself: batches of turns of a given
 * length with random ids, sealed, scored, trained on, saved and fetched. Prints seconds of each part, tokens per second, and
 * the GPU's memory where `nvidia-smi` answers.
 *
 *   node bootstrap.cjs bench/tinker-throughput.ts URL MODEL [--turns 16] [--prompt 8000] [--answer 128] [--updates 4]
 *     [--epochs 1] [--rank 8] [--hints 0] [--loss hybrid] [--rate 0.0001] [--epsilon 1e-8] [--dump FOLDER]
 *
 * MODEL: the folder with the base model's config.json. `--hints N`: every Nth turn has one. `--dump`: the first update's batch,
 * log-probs, weights and adapters, for bench/tinker_torch.py. For the memory start SkyRL with XLA_PYTHON_CLIENT_PREALLOCATE=false.
 */
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import type { TrainItem } from '@instar/engine/port'
import { createTurnReader, getBlob, openMemoryLog } from '@instar/log'
import { uniform } from '@instar/policy/random'
import { tokenWeights } from '@instar/policy/token-weights'
import { connectTrainer, saveRequest, type TrainingServer } from '@instar/tinker'
import { readReferences, readScored } from '../services/trainer/src/shell/remote/requests.ts'
import { stepSettings } from '../services/trainer/src/shell/train-item.ts'
import { exampleModel, openLine, startTrainer, STEP, untilWaits, type RemoteLine } from '../test/kit/remote-line.ts'
import { machine, median, rounded } from './machine.ts'

const { positionals, values: given } = parseArgs({
  allowPositionals: true,
  options: Object.fromEntries(
    ['turns', 'prompt', 'answer', 'updates', 'epochs', 'rank', 'hints', 'loss', 'rate', 'epsilon', 'dump'].map(
      (name) => [name, { type: 'string' as const }],
    ),
  ),
})
const [url, folder] = positionals
if (url === undefined || folder === undefined) throw new Error('usage: bench/tinker-throughput.ts URL MODEL [options]')
const number = (name: string, otherwise: number): number => Number(given[name] ?? otherwise)
const [turns, promptTokens, answerTokens] = [number('turns', 16), number('prompt', 8000), number('answer', 128)]
const [updates, epochs, rank, hints] = [
  number('updates', 4),
  number('epochs', 1),
  number('rank', 8),
  number('hints', 0),
]
const loss = given['loss'] ?? 'hybrid'
const step = {
  ...STEP,
  rank,
  epochs,
  learningRate: number('rate', 1e-4),
  adamEpsilon: number('epsilon', 1e-8),
  sequenceMask: 4,
  klFullAtAdvantage: 0,
  klWeight: 0.2,
}
const { vocab_size: vocabulary, ...config } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8')) as {
  vocab_size: number
  hidden_size: number
  num_hidden_layers: number
  dtype?: string
  torch_dtype?: string
}

type Span = { part: string; from: number; to: number }
const PARTS = ['probe', 'create', 'score', 'step', 'save', 'fetch'] as const
const PART_OF: Readonly<Record<string, (typeof PARTS)[number]>> = {
  forward: 'score',
  forward_backward: 'step',
  optim_step: 'step',
  save_weights: 'save',
  save_weights_for_sampler: 'save',
}

/** The server, with the time of each call. */
const timed = (server: TrainingServer, spans: Span[]): TrainingServer =>
  new Proxy(server, {
    get(own, name) {
      const value: unknown = Reflect.get(own, name, own)
      if (typeof value !== 'function') return value
      const method = value.bind(own) as (...args: { kind?: string }[]) => unknown
      const part = { probe: 'probe', createModel: 'create', archive: 'fetch' }[String(name)]
      if (name !== 'send' && part === undefined) return method
      return async (...args: { kind?: string }[]) => {
        const from = performance.now()
        const result = await method(...args)
        spans.push({ part: part ?? PART_OF[args[0]?.kind ?? ''] ?? 'other', from, to: performance.now() })
        return result
      }
    },
  })

/** Seconds in which at least one of the spans was open. */
const covered = (spans: readonly Span[]): number => {
  let [sum, until] = [0, -Infinity]
  for (const { from, to } of spans.toSorted((a, b) => a.from - b.from)) {
    sum += Math.max(0, to - Math.max(from, until))
    until = Math.max(until, to)
  }
  return sum / 1000
}

/** The most memory of the first GPU in use, MiB, asked for twice a second until `stop`; null without `nvidia-smi`. */
const memoryWatch = (): { most(): number | null; stop(): void } => {
  let most: number | null = null
  const ask = async (): Promise<void> => {
    try {
      const { stdout } = await promisify(execFile)('nvidia-smi', [
        '--query-gpu=memory.used',
        '--format=csv,noheader,nounits',
      ])
      most = Math.max(most ?? 0, Number.parseInt(stdout, 10))
    } catch {
      clearInterval(timer)
    }
  }
  const timer = setInterval(() => void ask(), 500)
  return { most: () => most, stop: () => clearInterval(timer) }
}

const next = uniform(7)
const ids = (count: number): number[] => Array.from({ length: count }, () => 3 + Math.floor(next() * (vocabulary - 3)))

/** Turns of random ids; the log-probs are those of the base, as if it had sampled them. */
const itemsOf = async (server: TrainingServer, base: string): Promise<TrainItem[]> => {
  const session = await server.openSession()
  const { model } = await server.createModel(session, { base, rank, seed: 0, modelSeq: 0 })
  const drafts = Array.from({ length: turns }, () => ({ prompt: ids(promptTokens), completion: ids(answerTokens) }))
  const rows = drafts.map(({ prompt, completion }) => ({
    tokens: [...prompt, ...completion.slice(0, -1)],
    targets: [...prompt.slice(1), ...completion],
  }))
  const answers = await Promise.all(server.prepareForward(model, 1, rows).map((one) => server.send(one)))
  await server.unload(model)
  server.endSession(session)
  const logprobs = answers.flatMap(({ result }) => result.logprobs)
  return drafts.map((draft, at) => ({
    ...draft,
    temperature: 1,
    advantage: at % 3 === 0 ? -0.7 : 0.4,
    behaviourLogprobs: Array.from(logprobs[at]?.slice(-answerTokens) ?? []),
    hintPrompt: hints > 0 && at % hints === 0 ? [0] : null,
  }))
}

/** What bench/tinker_torch.py computes the same update from, and what came of it here. */
const dump = async (
  to: string,
  line: RemoteLine,
  server: TrainingServer,
  model: ReturnType<typeof exampleModel>,
  reader: ReturnType<typeof createTurnReader>,
): Promise<void> => {
  const [[sealed], [bound], [scored], [computed]] = [
    await line.events('BatchSealed'),
    await line.events('TrainerBound'),
    await line.events('TrainerScored'),
    await line.events('UpdateComputed'),
  ]
  if (!sealed || !bound || !scored || !computed) throw new Error('no update to dump')
  mkdirSync(to, { recursive: true })
  const ports = { log: line.log, reader, model }
  const { items, now } = await readScored(ports, sealed, scored)
  const references = await readReferences(ports, scored, items)
  const settings = stepSettings(sealed)
  const weights = tokenWeights(
    items.map(({ item }, at) => ({
      advantage: item.advantage,
      behaviour: item.behaviourLogprobs,
      old: now[at] ?? [],
      hint:
        references.teacher[at] && references.base[at]
          ? { without: references.base[at], with: references.teacher[at] }
          : null,
      subject: item.subject ?? null,
      key: item.key ?? null,
    })),
    settings,
  )
  const plain = (values: ArrayLike<number> | null | undefined): number[] | null => (values ? Array.from(values) : null)
  const batch = items.map(({ item }, at) => ({
    prompt: item.prompt,
    completion: item.completion,
    hintPrompt: item.hintPrompt,
    advantage: item.advantage,
    old: plain(now[at]),
    base: plain(references.base[at]),
    teacher: plain(references.teacher[at]),
    policy: plain(weights[at]?.policy),
    importance: plain(weights[at]?.importance),
    opd: weights[at]?.opd ?? 0,
    kl: weights[at]?.kl ?? 0,
  }))
  const { alpha } = JSON.parse(bound.capabilities) as { alpha: number }
  writeFileSync(
    join(to, 'batch.json'),
    JSON.stringify({ settings, rank: bound.rank, alpha, figures: computed.figures, items: batch }),
  )
  const session = await server.openSession()
  const options = { base: bound.baseModel, rank: bound.rank, seed: bound.seed, modelSeq: 0 }
  const { model: fresh } = await server.createModel(session, options)
  const { result } = await server.send(saveRequest(server.wire, 'save_weights_for_sampler', fresh, 1, 'initial', null))
  const initial = await server.archive(result.path, 'base')
  await server.unload(fresh)
  writeFileSync(join(to, 'initial.safetensors'), initial.weights)
  writeFileSync(join(to, 'final.safetensors'), await getBlob(line.log, computed.adapter, computed.blobsAt))
}

const spans: Span[] = []
const server = timed(await connectTrainer(`tinker+${url}`, { key: null }), spans)
const memory = memoryWatch()
const [base = folder] = (await server.hello()).models
const items = await itemsOf(server, base)
const model = { ...exampleModel(hints > 0 ? ids(promptTokens + 24) : []), contextLength: 1 << 20, vocabulary }
const line = await openLine(openMemoryLog(), model)
const measured: { seconds: number; parts: Record<string, number> }[] = []
const settings = { loss, step, batchSize: turns, batchMax: turns }
await line.turns(items)
let from = performance.now()
const started = await startTrainer(line.log, { server }, model, settings)
for (let update = 1; update <= updates; update++) {
  if (update > 1) {
    await line.verdict(true)
    await untilWaits(started, 'turns')
    spans.length = 0
    from = performance.now()
    await line.turns(items, update * turns, update - 1)
    await untilWaits(started, 'compute')
  }
  await untilWaits(started, 'verdict', 'turns')
  for (const { reason } of await line.events('UpdateFailed')) throw new Error(reason)
  const parts = PARTS.map((part): [string, number] => [part, covered(spans.filter((span) => span.part === part))])
  measured.push({ seconds: (performance.now() - from) / 1000, parts: Object.fromEntries(parts) })
  process.stderr.write(
    `update ${update} of ${updates}: ${rounded(measured.at(-1)?.seconds ?? 0)} s ${JSON.stringify(measured.at(-1)?.parts)}\n`,
  )
  if (update === 1 && given['dump'] !== undefined) {
    const reader = createTurnReader(line.log, (turn) => started.trainer.state.turns.turns.get(turn))
    await dump(given['dump'], line, server, model, reader)
  }
}
memory.stop()
const computed = await line.events('UpdateComputed')
const [first, ...later] = measured
const rowTokens = turns * (promptTokens + answerTokens - 1)
const partSeconds = (part: string): number => median(later.map(({ parts }) => parts[part] ?? 0))
/** Scorings of the trained model, one more than steps, and one of the base. */
const passes = { score: epochs + 2, step: epochs }
process.stdout.write(
  `${JSON.stringify(
    {
      machine: machine(),
      server: (await line.events('TrainerBound'))[0]?.capabilities,
      model: config,
      batch: { turns, promptTokens, answerTokens, rowTokens, epochs, rank, hints, loss },
      updates: computed.length,
      firstUpdate: first,
      secondsPerUpdate: {
        median: rounded(median(later.map(({ seconds }) => seconds))),
        all: later.map(({ seconds }) => rounded(seconds)),
        parts: Object.fromEntries(PARTS.map((part) => [part, rounded(partSeconds(part))])),
      },
      tokensPerSecond: {
        score: Math.round((rowTokens * passes.score) / partSeconds('score')),
        step: Math.round((rowTokens * passes.step) / partSeconds('step')),
        update: Math.round(rowTokens / median(later.map(({ seconds }) => seconds))),
      },
      gpuMiB: memory.most(),
      figures: computed.map(({ figures, adapterBytes }) => ({ adapterBytes, ...figures })),
    },
    null,
    2,
  )}\n`,
)
for (const { model: trained, reference } of await line.events('TrainerBound'))
  await Promise.all([server.unload(trained), server.unload(reference)])
await started.trainer.stop()
