/** Runs the demo: a pipeline in a temporary folder, three simulated users, measurements before and after. */
import { rmSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import type { EngineChoice } from '@instar/policy'
import type { LearningSettings } from '../learning-settings.ts'
import { startPipeline, type Pipeline } from '../pipeline.ts'
import { createFirstError } from './first-error.ts'
import { folderBytes } from './folder-bytes.ts'
import { answersText, createProgressLine, summaryText, versionTable, type VersionRow } from './output.ts'
import { Demo, DEMO, recentShare, type DemoSettings } from './protocol.ts'
import type { DemoResult } from './result.ts'
import { showDashboard, staysUntilStopped, untilStopped, type Watch } from './watch.ts'

/** Absent `sessions` and `evaluation`: those of DEMO. */
type DemoOptions = {
  seed: number
  model: string
  engine: EngineChoice
  learning: Pick<LearningSettings, 'scorer' | 'trainer' | 'publisher'>
  sessions?: number
  evaluation?: number
  /** Keep the temporary folder. */
  keep: boolean
  /** With a database, the dashboard's address, and until Ctrl-C. */
  watch?: Watch
  /** Write no text. */
  json: boolean
  write: (text: string) => void
  /** Draws the line of progress; absent: `write`. */
  draw?: (text: string) => void
}

export const runDemo = async (options: DemoOptions): Promise<DemoResult> => {
  const startedAt = Date.now()
  const data = mkdtempSync(join(tmpdir(), 'instar-demo-'))
  const settings: DemoSettings = {
    ...DEMO,
    seed: options.seed,
    sessions: options.sessions ?? DEMO.sessions,
    evaluation: options.evaluation ?? DEMO.evaluation,
  }
  const writeLine = (line: string): void => options.write(`${line}\n`)
  const firstError = createFirstError()
  const rows: VersionRow[] = []
  let figures: Record<string, number> = {}
  const showProgress = options.json ? () => undefined : createProgressLine(options.draw ?? options.write)
  let state = {
    sessions: 0,
    version: 0,
    loss: Number.NaN,
    users: [] as { name: string; share: number; converged: number | null }[],
  }
  const update = (changes: Partial<typeof state>): void => {
    state = { ...state, ...changes }
    showProgress({ ...state, total: settings.sessions })
  }
  const pipeline = await startPipeline(
    {
      data,
      model: options.model,
      engine: options.engine,
      database: options.watch ? null : false,
      gateway: { port: 0 },
      scorer: options.learning.scorer,
      trainer: options.learning.trainer,
      publisher: options.learning.publisher,
    },
    {
      logLine: writeLine,
      onFatal: firstError.onFatal,
      onTraining: (progress) => {
        if (progress.phase !== 'computed') return
        figures = progress.figures ?? {}
        update({ loss: figures.loss ?? Number.NaN })
      },
      onVerdict: (verdict) => {
        rows.push({
          version: verdict.version,
          reason: verdict.reason,
          loss: figures.loss ?? Number.NaN,
          advantage: figures.meanAbsAdvantage ?? Number.NaN,
          klParent: verdict.figures.kl_parent ?? Number.NaN,
          klBase: verdict.figures.kl_base ?? Number.NaN,
          content: verdict.figures.content ?? Number.NaN,
          sessions: state.sessions,
        })
        if (verdict.version !== null) update({ version: verdict.version })
      },
    },
  )
  const settled = (): Promise<void> => firstError.orFatal(pipeline.settled())
  const run = async (): Promise<DemoResult> => {
    if (!options.json)
      writeLine(
        `engine ${pipeline.serving}; at most ${settings.sessions} sessions, seed ${options.seed}; data in ${data}`,
      )
    const client = new OpenAI({ baseURL: `${pipeline.url}/v1`, apiKey: 'none', maxRetries: 0 })
    const demo = new Demo(
      { client, settled, onProgress: ({ sessions, users }) => update({ sessions, users }) },
      settings,
    )
    const satisfactionOf = async (model: string): Promise<number[]> => {
      const shares: number[] = []
      for (const { user } of demo.users) shares.push(await demo.satisfaction(user, model))
      return shares
    }
    await settled()
    if (!options.json) writeLine('measuring the base model …')
    const correctBefore = await demo.correctness('policy@0')
    const before = await satisfactionOf('policy@0')
    await demo.run()
    await settled()
    if (!options.json) writeLine('\nmeasuring the trained model …')
    const head = await headOf(pipeline)
    const correctAfter = await demo.correctness('policy')
    const after = await satisfactionOf('policy')
    const pairs = []
    for (const { user } of demo.users)
      pairs.push({ name: user.name, ...(await demo.compareAnswers(user, ['policy@0', 'policy'])) })
    const result: DemoResult = {
      engine: pipeline.serving,
      seed: options.seed,
      users: demo.users.map((record, i) => ({
        name: record.user.name,
        sessions_to_converge: record.sessionsToConverge,
        sessions: record.firstReplies.length,
        last_24: recentShare(record.firstReplies),
        first_reply_ok_before: before[i] ?? 0,
        first_reply_ok_after: after[i] ?? 0,
      })),
      versions: head,
      requests: demo.requests,
      failed_requests: demo.failed,
      correct_before: correctBefore,
      correct_after: correctAfter,
      wall_s: (Date.now() - startedAt) / 1000,
      log_bytes: folderBytes(join(data, 'log')),
    }
    if (!options.json) writeLine(`${versionTable(rows)}\n\n${answersText(pairs)}\n\n${summaryText(result)}`)
    if (demo.lastError && !options.json) writeLine(`error of the last failed request: ${demo.lastError.message}`)
    return result
  }
  try {
    await showDashboard(options.watch, { url: pipeline.url, data }, writeLine)
    const result = await untilStopped(options.watch, run())
    await staysUntilStopped(options.watch, pipeline.url, writeLine)
    return result
  } finally {
    await pipeline.stop()
    if (!options.keep) rmSync(data, { recursive: true, force: true })
  }
}

const headOf = async (pipeline: Pipeline): Promise<number> => (await pipeline.line())?.head ?? 0
