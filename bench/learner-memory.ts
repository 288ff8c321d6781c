/**
 * Memory and speed of one forward and backward pass of an update by the length of its turn, in a process that has loaded
 * nothing else. Peaks are those of the kernel (/proc/self), so this bench runs on Linux only.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DEFAULTS_BY_SIZE } from '@instar/process'
import { loadWeights } from '@instar/policy/checkpoints/open'
import { initialLora, loraTensors } from '@instar/policy/lora'
import { createRuntime } from '@instar/policy/runtime/runtime'
import { compileTraining, type MicroBatch } from '@instar/policy/training'
import { fetchSmolLM2 } from '../cli/src/smollm2.ts'
import { machine, rounded } from './machine.ts'

/** `peakMb`: above the process before the first pass, which `loadedMb` is; lengths run in ascending order. */
type MemoryRow = {
  model: string
  tokens: number
  topK: number
  loadedMb: number
  peakMb: number
  cpuSeconds: number
  tokensPerCpuSecond: number
}
type Report = { name: string; machine: string; rows: MemoryRow[] }

const ANSWER = 64
const RANK = 8
const ALPHA = 16

const megabytes = (field: 'VmRSS' | 'VmHWM'): number =>
  Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) / 1024)
/** Sets VmHWM to VmRSS. */
const resetPeak = (): void => {
  writeFileSync('/proc/self/clear_refs', '5')
}

/** A turn of `tokens` positions whose last ANSWER are the answer, with all three terms of the loss on each of them. */
const turnOf = (tokens: number, V: number, topK: number): MicroBatch => {
  const each = Array.from({ length: ANSWER }, (_, at) => at)
  const reference = {
    ids: topK > 0 ? Int32Array.from({ length: ANSWER * topK }, (_, at) => at % topK) : null,
    logp: new Float32Array(ANSWER * (topK > 0 ? topK + 1 : V)).fill(-Math.log(V)),
  }
  const term = { places: each, reference, weight_R: each.map(() => 1 / ANSWER) }
  return {
    B: 1,
    T: tokens,
    ids: Int32Array.from({ length: tokens }, (_, at) => (at * 37) % V),
    rows: each.map((at) => tokens - ANSWER + at),
    targets: each,
    inverseTemperature: each.map(() => 1),
    old: each.map(() => -8),
    advantage: each.map(() => 0.5),
    weight: each.map(() => 1 / ANSWER),
    opd: term,
    kl: term,
  }
}

export const bench = async ({
  quick = false,
  logLine = () => undefined,
}: { quick?: boolean; logLine?: (line: string) => void } = {}): Promise<Report> => {
  const rows: MemoryRow[] = []
  const measuredOn = machine()
  const topKs = DEFAULTS_BY_SIZE.find(({ setting }) => setting === 'training.referenceTopK')
  const models = [
    { name: 'tiny', path: join(import.meta.dirname, '../models/tiny'), topK: topKs?.tiny },
    { name: 'SmolLM2-135M', path: await fetchSmolLM2(join(import.meta.dirname, '../.cache')), topK: topKs?.small },
  ]
  for (const model of models) {
    const { config, weights } = loadWeights(model.path)
    const topK = Number(model.topK ?? 0)
    const runtime = await createRuntime({ config, weights, base: model.name, engine: 'onnx', threads: 1 })
    const fixed = { rank: RANK, alpha: ALPHA, clipLow: 0.2, clipHigh: 0.28, topK }
    const training = await compileTraining(runtime.backend, config, runtime.constants, fixed)
    const adapter = loraTensors(config, initialLora(config, RANK, ALPHA, 1))
    const loadedMb = megabytes('VmRSS')
    for (const tokens of quick ? [128, 256] : [128, 256, 512, 1024]) {
      if (tokens > config.contextLength) continue
      const turn = turnOf(tokens, config.vocabulary, topK)
      resetPeak()
      let cpuSeconds = Infinity
      for (let pass = 0; pass < 2; pass += 1) {
        const before = process.cpuUsage()
        await training.run(adapter, turn)
        const { user, system } = process.cpuUsage(before)
        cpuSeconds = Math.min(cpuSeconds, (user + system) / 1e6)
      }
      rows.push({
        model: model.name,
        tokens,
        topK,
        loadedMb,
        peakMb: megabytes('VmHWM') - loadedMb,
        cpuSeconds: rounded(cpuSeconds),
        tokensPerCpuSecond: Math.round(tokens / cpuSeconds),
      })
      logLine(JSON.stringify(rows.at(-1)))
    }
    await training.dispose()
    await runtime.close()
  }
  return { name: 'learner-memory', machine: measuredOn, rows }
}
