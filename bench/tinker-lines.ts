/**
 * Many lines on one real SkyRL (CPU) with room for three models: each update of a line creates a model, loads the line's
 * state, makes a step, saves, and unloads. Whether a line is as if it were alone, the server's memory, the time.
 *
 *   node bootstrap.cjs bench/tinker-lines.ts [LINES] [ROUNDS] [URL]
 *
 * Without the URL of a running SkyRL on models/tiny it installs and starts one: Linux, Python 3.12, 7 GB of disk, 2 GB of
 * memory. Memory is measured of one that it started.
 */
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { connectTrainer, rowFactor, type Reduction, type ScoreRow, type TrainingServer } from '@instar/tinker'
import { startSkyrl } from '../test/engines/nightly/skyrl.ts'
import { machine, median, rounded } from './machine.ts'

const MODEL = resolve(import.meta.dirname, '../models/tiny')
const RANK = 8
/** One of them is the base model's own. */
const SLOTS = 4
const ADAM = { learningRate: 1e-3, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, gradClipNorm: 0 }
/** The reduction of SkyRL's JAX backend; `doctor trainer` measures it. */
const REDUCTION: Reduction = 'sequence_mean'
const ROWS = 4
const TOKENS = 48
const VOCABULARY = 2304
/** Lines whose updates are made once more without the other lines between them. */
const ALONE = 3
const RUN = `lines-${process.pid}`

type Line = { number: number; rows: ScoreRow[]; state: string | null; logprobs: Float32Array[] | null; adapter: string }
type Place = { server: TrainingServer; session: string; base: string }
type Update = { seconds: number; parts: Record<string, number> }

/** Rows of a line: pseudo-random ids, other ones for each line. */
const rowsOf = (line: number): ScoreRow[] =>
  Array.from({ length: ROWS }, (_, row) => {
    const ids = Array.from(
      { length: TOKENS + 1 },
      (_one, at) => 3 + ((line * 7919 + row * 104_729 + at * at * 31 + at * 17) % (VOCABULARY - 3)),
    )
    return { tokens: ids.slice(0, -1), targets: ids.slice(1) }
  })

const begun = (number: number): Line => ({
  number,
  rows: rowsOf(number),
  state: null,
  logprobs: null,
  adapter: '',
})

const bits = (rows: readonly Float32Array[]): string =>
  rows.map((row) => Buffer.from(row.buffer, row.byteOffset, row.byteLength).toString('hex')).join()

/** One update of a line, in a model of its own. Throws if the loaded state is not that of the line's last update. */
const update = async ({ server, session, base }: Place, line: Line, name: string): Promise<Update> => {
  const parts: Record<string, number> = {}
  const timed = async <T>(part: string, work: () => Promise<T>): Promise<T> => {
    const begin = performance.now()
    const result = await work()
    parts[part] = (performance.now() - begin) / 1000
    return result
  }
  const begin = performance.now()
  const { model } = await timed('create', () =>
    server.createModel(session, { base, rank: RANK, seed: line.number, modelSeq: models++ }),
  )
  let seq = 1
  const { state } = line
  if (state !== null)
    await timed('load', () => server.send(server.prepareLoad(model, seq++, state, { optimizer: true })))
  const [forward] = server.prepareForward(model, seq++, line.rows)
  if (!forward) throw new Error('no rows')
  const { logprobs } = (await timed('forward', () => server.send(forward))).result
  if (line.logprobs && bits(line.logprobs) !== bits(logprobs)) throw new Error(`line ${line.number} has other weights`)
  const [pass] = server.prepareForwardBackward(
    model,
    seq++,
    line.rows.map((row, index) => ({
      ...row,
      logprobs: [...(logprobs[index] ?? [])],
      advantages: row.targets.map(
        () => ((index % 2 === 0 ? 1 : -0.5) * rowFactor(REDUCTION, TOKENS, ROWS, ROWS * TOKENS)) / (ROWS * TOKENS),
      ),
    })),
  )
  if (!pass) throw new Error('no rows')
  const optim = server.prepareOptimStep(model, seq++, ADAM)
  await timed('step', () => Promise.all([server.send(pass), server.send(optim)]))
  const [after] = server.prepareForward(model, seq++, line.rows)
  if (!after) throw new Error('no rows')
  line.logprobs = (await timed('forward after', () => server.send(after))).result.logprobs
  line.state = (await timed('save', () => server.send(server.prepareSave(model, seq++, name)))).result.path
  const sampler = await timed('save adapter', () => server.send(server.prepareSaveForSampler(model, seq++, name)))
  line.adapter = (await timed('fetch', () => server.archive(sampler.result.path, base))).tensorsSha256
  await timed('unload', () => server.unload(model))
  return { seconds: (performance.now() - begin) / 1000, parts }
}
let models = 0

const bytesIn = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true }).reduce(
    (sum, one) => sum + (one.isFile() ? statSync(join(one.parentPath, one.name)).size : 0),
    0,
  )

const main = async (lines: number, rounds: number, running: string | undefined): Promise<void> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-lines-'))
  const skyrl = running === undefined ? await startSkyrl({ model: MODEL, folder, adapters: SLOTS, rank: RANK }) : null
  try {
    await skyrl?.ready()
    const server = await connectTrainer(`tinker+${skyrl?.url ?? running}`, { key: null })
    const [base = MODEL] = (await server.hello()).models
    const session = await server.openSession()
    // The first update compiles.
    const first = await update({ server, session, base }, begun(9999), `${RUN}-compile`)
    const all = Array.from({ length: lines }, (_, number) => begun(number))
    const updates: Update[] = []
    const memory = [skyrl?.memory() ?? null]
    for (let round = 1; round <= rounds; round++) {
      for (const line of all) {
        updates.push(await update({ server, session, base }, line, `${RUN}-${round}`))
        process.stderr.write(`${updates.length} updates, the last in ${rounded(updates.at(-1)?.seconds ?? 0)} s\n`)
      }
      memory.push(skyrl?.memory() ?? null)
    }
    const different = new Set(all.map(({ adapter }) => adapter)).size
    let asAlone = 0
    for (const line of all.slice(0, ALONE)) {
      const alone = begun(line.number)
      for (let round = 1; round <= rounds; round++)
        await update({ server, session, base }, alone, `${RUN}-alone-${round}`)
      if (alone.adapter === line.adapter) asAlone += 1
    }
    const seconds = updates.map((one) => one.seconds)
    const parts = Object.fromEntries(
      ['create', 'load', 'forward', 'step', 'forward after', 'save', 'save adapter', 'fetch', 'unload'].map((part) => [
        part,
        rounded(median(updates.flatMap((one) => one.parts[part] ?? []))),
      ]),
    )
    const report = {
      machine: machine(),
      lines,
      rounds,
      slots: skyrl ? SLOTS : null,
      updates: updates.length,
      firstUpdateSeconds: rounded(first.seconds),
      secondsPerUpdate: { median: rounded(median(seconds)), max: rounded(Math.max(...seconds)), parts },
      adaptersThatDiffer: different,
      linesAsAlone: `${asAlone} of ${Math.min(ALONE, lines)}, bit for bit`,
      serverMiB: memory,
      checkpointKiBPerUpdate: skyrl ? Math.round(bytesIn(join(folder, 'checkpoints')) / 1024 / models) : null,
    }
    process.stdout.write(`${JSON.stringify(report, null, 2)}\n`)
    if (different !== lines || asAlone !== Math.min(ALONE, lines)) process.exitCode = 1
    await server.close()
  } finally {
    await skyrl?.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const [, , lines = '32', rounds = '3', running] = process.argv
await main(Number(lines), Number(rounds), running)
