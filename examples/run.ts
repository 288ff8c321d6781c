/** `npm run example -- NAME`: starts a pipeline in a temporary folder, lets an agent work through it, and measures. */
import { printable } from '@instar/process/printable'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import OpenAI from 'openai'
import { startPipeline, type Pipeline } from '../cli/src/pipeline.ts'
import { runEpisode, type EpisodeResult, type Example, type Task } from './example.ts'
import { swe } from './swe/example.ts'
import { terminal } from './terminal/example.ts'
import { toolCall } from './tool-call/example.ts'
import { web } from './web/example.ts'

export const EXAMPLES: readonly Example[] = [terminal, toolCall, swe, web]

const HELP = `npm run example -- NAME [--tasks N] [--episodes N] [--measure N] [--seed N] [--model FOLDER] [--url URL] [--json]

${EXAMPLES.map(({ name, about }) => `  ${name.padEnd(12)} ${about}`).join('\n')}

Lets a small agent work on tasks whose result is checked, through the openai client and a gateway. Each task is done by
several episodes, whose rewards are compared; unseen tasks are measured before and after, and are not trained on.

  --tasks N      tasks (default 24)
  --episodes N   episodes of each task (default 4, as many as the trainer compares)
  --measure N    tasks of each measurement (default 48)
  --seed N       of the tasks (default 1)
  --model FOLDER the model (default models/tiny)
  --url URL      a gateway that runs, with or without /v1; then nothing waits for updates
  --json         one JSON object as the last line, progress on standard error

Exit codes: 0 done, whatever the rewards; 1 a request or the pipeline failed; 2 wrong usage.
`

export type RunOptions = {
  tasks: number
  episodes: number
  measure: number
  seed: number
  model: string
  url: string | null
  print: (line: string) => void
}
type Measured = { solved: number; mean_reward: number; calls: number }
export type ExampleResult = {
  example: string
  model: string
  episodes: number
  solved: number
  mean_reward: number
  before: Measured
  after: Measured
  version: number | null
  wall_s: number
}

/** Concurrent episodes of a measurement. */
const CONCURRENCY = 4

const measured = (results: readonly EpisodeResult[]): Measured => {
  const share = (of: (result: EpisodeResult) => number): number =>
    Number((results.reduce((sum, result) => sum + of(result), 0) / Math.max(1, results.length)).toFixed(3))
  return {
    solved: share(({ reward }) => (reward === 1 ? 1 : 0)),
    mean_reward: share(({ reward }) => reward),
    calls: share(({ calls }) => calls),
  }
}

export const runExample = async (example: Example, options: RunOptions): Promise<ExampleResult> => {
  const startedAt = Date.now()
  const data = mkdtempSync(join(tmpdir(), 'instar-example-'))
  let fatal: Error | null = null
  const pipeline: Pipeline | null =
    options.url === null
      ? await startPipeline(
          {
            data,
            model: options.model,
            engine: 'auto',
            database: false,
            gateway: { port: 0 },
            scorer: {},
            trainer: {},
            publisher: {},
          },
          {
            logLine: options.print,
            onFatal: (error) => (fatal ??= error),
            onVerdict: ({ version, reason }) =>
              options.print(version === null ? `update rejected: ${reason}` : `version ${version} is served`),
          },
        )
      : null
  try {
    const url = pipeline?.url ?? (options.url ?? '').replace(/\/+$/, '').replace(/\/v1$/, '')
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: process.env['OPENAI_API_KEY'] ?? 'none', maxRetries: 2 })
    const run = startedAt.toString(36)
    let session = 0
    const episode = (task: Task, model: string, learn: boolean, seed?: number): Promise<EpisodeResult> =>
      runEpisode(task, { client, url, session: `example-${run}-${(session += 1)}`, model, learn, seed })
    const unseen = example.tasks(options.seed + 1_000_000, options.measure)
    const measure = async (model: string): Promise<Measured> => {
      const results: EpisodeResult[] = []
      for (let at = 0; at < unseen.length; at += CONCURRENCY)
        results.push(
          ...(await Promise.all(
            unseen.slice(at, at + CONCURRENCY).map((task, i) => episode(task, model, false, 100 * (at + i) + 1)),
          )),
        )
      return measured(results)
    }
    const settled = async (): Promise<void> => {
      await pipeline?.settled()
      if (fatal) throw fatal
    }
    await settled()
    const before = await measure(pipeline ? 'policy@0' : 'policy')
    options.print(`before: ${Math.round(100 * before.solved)} % solved, mean reward ${before.mean_reward}`)
    const all: EpisodeResult[] = []
    for (const [at, task] of example.tasks(options.seed, options.tasks).entries()) {
      all.push(...(await Promise.all(Array.from({ length: options.episodes }, () => episode(task, 'policy', true)))))
      await settled()
      const last = measured(all.slice(-4 * options.episodes))
      options.print(
        `task ${at + 1}/${options.tasks}: last four tasks ${Math.round(100 * last.solved)} % solved, mean reward ${last.mean_reward}`,
      )
    }
    const after = await measure('policy')
    options.print(`after: ${Math.round(100 * after.solved)} % solved, mean reward ${after.mean_reward}`)
    const { solved, mean_reward } = measured(all)
    return {
      example: example.name,
      model: options.model,
      episodes: all.length,
      solved,
      mean_reward,
      before,
      after,
      version: (await pipeline?.line())?.head ?? null,
      wall_s: Math.round((Date.now() - startedAt) / 1000),
    }
  } finally {
    await pipeline?.stop()
    rmSync(data, { recursive: true, force: true })
  }
}

class UsageError extends Error {}

const count = (text: string | undefined, name: string, standard: number): number => {
  if (text === undefined) return standard
  if (!/^\d{1,5}$/.test(text) || (Number(text) === 0 && name !== 'seed'))
    throw new UsageError(`--${name} ${text} is not a whole number from 1 to 99999`)
  return Number(text)
}

export const main = async (args: readonly string[]): Promise<number> => {
  const print = (line: string): void => void process.stderr.write(`${printable(line)}\n`)
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        tasks: { type: 'string' },
        episodes: { type: 'string' },
        measure: { type: 'string' },
        seed: { type: 'string' },
        model: { type: 'string', default: 'models/tiny' },
        url: { type: 'string' },
        json: { type: 'boolean' },
        help: { type: 'boolean', short: 'h' },
      },
    })
    if (values.help) {
      process.stdout.write(HELP)
      return 0
    }
    const [name, ...rest] = positionals
    const example = EXAMPLES.find((one) => one.name === name)
    if (!example || rest.length > 0)
      throw new UsageError(`name one example: ${EXAMPLES.map((one) => one.name).join(', ')}`)
    if (values.url === undefined && !existsSync(values.model))
      throw new UsageError(`--model ${values.model}: there is no such folder or file`)
    const result = await runExample(example, {
      tasks: count(values.tasks, 'tasks', 24),
      episodes: count(values.episodes, 'episodes', 4),
      measure: count(values.measure, 'measure', 48),
      seed: count(values.seed, 'seed', 1),
      model: values.model,
      url: values.url ?? null,
      print,
    })
    process.stdout.write(
      values.json
        ? `${JSON.stringify(result)}\n`
        : `${result.example}: ${result.episodes} episodes, ${Math.round(100 * result.solved)} % solved, version ${result.version ?? '–'}; unseen tasks ${Math.round(100 * result.before.solved)} % → ${Math.round(100 * result.after.solved)} %; ${result.wall_s} s\n`,
    )
    return 0
  } catch (error) {
    const usage =
      error instanceof UsageError || (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS') === true
    print(`${(error as Error).message}${usage ? '\nnpm run example -- --help' : ''}`)
    return usage ? 2 : 1
  }
}
