/** `npm run demo`: the pipeline in a folder of its own, three people talking, figures before and after. */
import { existsSync, readdirSync, rmSync, statSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import type { EngineChoice } from '@instar/policy'
import { startPipeline, type Running } from '../pipeline.ts'
import { firstFault } from './first-fault.ts'
import { Demo, DEMO, lastShare, type DemoSettings } from './protocol.ts'
import type { DemoResult } from './result.ts'
import { progressBar, sideBySide, summary, versionTable, type VersionRow } from './show.ts'

type DemoOptions = {
  seed: number
  model: string
  engine: EngineChoice
  sessions?: number
  evaluation?: number
  keep: boolean
  json: boolean
  write: (text: string) => void
}

export const runDemo = async (options: DemoOptions): Promise<DemoResult> => {
  const began = Date.now()
  const data = mkdtempSync(join(tmpdir(), 'instar-demo-'))
  const settings: DemoSettings = {
    ...DEMO,
    seed: options.seed,
    sessions: options.sessions ?? DEMO.sessions,
    evaluation: options.evaluation ?? DEMO.evaluation,
  }
  const say = (line: string): void => options.write(`${line}\n`)
  const fault = firstFault()
  const rows: VersionRow[] = []
  let figures: Record<string, number> = {}
  const live = options.json ? () => undefined : progressBar(options.write)
  let line = {
    sessions: 0,
    version: 0,
    loss: Number.NaN,
    users: [] as { name: string; share: number; converged: number | null }[],
  }
  const redraw = (changes: Partial<typeof line>): void => {
    line = { ...line, ...changes }
    live({ ...line, total: settings.sessions })
  }
  const pipeline = await startPipeline(
    {
      data,
      model: options.model,
      engine: options.engine,
      database: false,
      gateway: { port: 0 },
      scorer: {},
      trainer: {},
      publisher: {},
    },
    {
      say,
      onFatal: fault.onFatal,
      onTraining: (what) => {
        if (what.phase !== 'computed') return
        figures = what.figures ?? {}
        redraw({ loss: figures.loss ?? Number.NaN })
      },
      onVerdict: (what) => {
        rows.push({
          version: what.version,
          reason: what.reason,
          loss: figures.loss ?? Number.NaN,
          advantage: figures.meanAbsAdvantage ?? Number.NaN,
          klParent: what.figures.kl_parent ?? Number.NaN,
          klBase: what.figures.kl_base ?? Number.NaN,
          content: what.figures.content ?? Number.NaN,
          sessions: line.sessions,
        })
        if (what.version !== null) redraw({ version: what.version })
      },
    },
  )
  const settled = (): Promise<void> => fault.before(pipeline.settled())
  try {
    if (!options.json)
      say(`engine ${pipeline.serving}; ${settings.sessions} sessions at most, seed ${options.seed}; data in ${data}`)
    const client = new OpenAI({ baseURL: `${pipeline.url}/v1`, apiKey: 'none', maxRetries: 0 })
    const demo = new Demo(
      { client, settled, onProgress: (p) => redraw({ sessions: p.sessions, users: p.users }) },
      settings,
    )
    await settled()
    if (!options.json) say('measuring the base …')
    const correctBefore = await demo.correct('policy@0')
    const before: number[] = []
    for (const { user } of demo.users) before.push(await demo.rule(user, 'policy@0'))
    await demo.run()
    await settled()
    if (!options.json) say('\nmeasuring what was learned …')
    const head = await headOf(pipeline)
    const correctAfter = await demo.correct('policy')
    const after: number[] = []
    for (const { user } of demo.users) after.push(await demo.rule(user, 'policy'))
    const pairs = []
    for (const { user } of demo.users)
      pairs.push({ name: user.name, ...(await demo.sideBySide(user, ['policy@0', 'policy'])) })
    const result: DemoResult = {
      engine: pipeline.serving,
      seed: options.seed,
      users: demo.users.map((record, i) => ({
        name: record.user.name,
        sessions_to_converge: record.toConverge,
        sessions: record.firstReplies.length,
        last_24: lastShare(record.firstReplies),
        first_reply_ok_before: before[i] ?? 0,
        first_reply_ok_after: after[i] ?? 0,
      })),
      versions: head,
      requests: demo.requests,
      failed_requests: demo.failed,
      correct_before: correctBefore,
      correct_after: correctAfter,
      wall_s: (Date.now() - began) / 1000,
      log_bytes: folderBytes(join(data, 'log')),
    }
    if (!options.json) say(`${versionTable(rows)}\n\n${sideBySide(pairs)}\n\n${summary(result)}`)
    if (demo.lastError && !options.json) say(`last failed request: ${demo.lastError.message}`)
    return result
  } finally {
    await pipeline.stop()
    if (!options.keep) rmSync(data, { recursive: true, force: true })
  }
}

const headOf = async (running: Running): Promise<number> => (await running.line())?.head ?? 0

const folderBytes = (folder: string): number =>
  existsSync(folder) ? readdirSync(folder).reduce((total, name) => total + statSync(join(folder, name)).size, 0) : 0
