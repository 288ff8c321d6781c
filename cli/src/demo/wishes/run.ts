/**
 * Runs the demo on a general model: a pipeline in a temporary folder, people with wishes, measurements before and
 * after.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import OpenAI from 'openai'
import type { EngineChoice } from '@instar/policy'
import type { LearningSettings } from '../../learning-settings.ts'
import { startPipeline, type Pipeline } from '../../pipeline.ts'
import { table } from '../../table.ts'
import { ChatClient, shareOf } from '../chat-client.ts'
import { createFirstError } from '../first-error.ts'
import { folderBytes } from '../folder-bytes.ts'
import { Conversations, recentShare } from './conversations.ts'
import { showDashboard, staysUntilStopped, untilStopped, type Watch } from '../watch.ts'
import { WISHES } from './people.ts'
import type { WishesResult } from './result.ts'

type WishesOptions = {
  seed: number
  model: string
  engine: EngineChoice
  learning: LearningSettings
  /** Names of the wishes; empty: all. */
  wishes: readonly string[]
  /** The conversations end after this time, or earlier when every person is content. */
  minutes: number
  /** Held-out questions of a measurement, for each person. */
  fresh: number
  keep: boolean
  /** As of the demo on the model that ships. */
  watch?: Watch
  json: boolean
  write: (text: string) => void
}

/** Answers are cut here; a list or a greeting shows before, and an answer of 25 words ends before. */
const MAX_TOKENS = 64
/** A model of this size is incoherent at 1. */
const TEMPERATURE = 0.7

const LINE_POLL_MS = 250

/**
 * Resolves when the version line has begun: no update is computed before the base has answered the probes of the gate,
 * once for each line.
 */
const lineStarted = async (pipeline: Pipeline): Promise<void> => {
  while ((await pipeline.line())?.started === false) await delay(LINE_POLL_MS)
}

const percent = (share: number): string => `${Math.round(share * 100)} %`

export const runWishes = async (options: WishesOptions): Promise<WishesResult> => {
  const startedAt = Date.now()
  const data = mkdtempSync(join(tmpdir(), 'instar-demo-'))
  const firstError = createFirstError()
  const line = (text: string): void => options.write(`${text}\n`)
  const say = options.json ? () => undefined : line
  const updates: WishesResult['updates'] = []
  let begun = startedAt
  const seconds = (): number => Math.round((Date.now() - begun) / 100) / 10
  let times: { sealed_s: number | null; computed_s: number | null } = { sealed_s: null, computed_s: null }
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
      logLine: line,
      onFatal: firstError.onFatal,
      onTraining({ phase, number, reason }) {
        if (phase === 'sealed') times = { sealed_s: seconds(), computed_s: null }
        if (phase === 'computed') times = { ...times, computed_s: seconds() }
        if (phase !== 'computed') say(`${seconds()} s: batch ${number} ${phase}${reason ? `: ${reason}` : ''}`)
      },
      onVerdict({ version, reason, figures }) {
        const { kl_parent = null, kl_base = null } = figures
        updates.push({ version, reason, ...times, verdict_s: seconds(), kl_parent, kl_base })
        say(
          `${seconds()} s: ${version === null ? `update refused: ${reason}` : `version ${version}`} (KL to the parent ${kl_parent?.toFixed(3) ?? '–'}, to the base ${kl_base?.toFixed(3) ?? '–'})`,
        )
      },
    },
  )
  const run = async (): Promise<WishesResult> => {
    const client = new OpenAI({ baseURL: `${pipeline.url}/v1`, apiKey: 'none', maxRetries: 0 })
    const chat = new ChatClient(client, { maxTokens: MAX_TOKENS, temperature: TEMPERATURE })
    const wishes = WISHES.filter(({ name }) => options.wishes.length === 0 || options.wishes.includes(name))
    const conversations = new Conversations(chat, wishes, options.seed)
    const measure = async (model: string): Promise<{ shares: number[]; facts: boolean[] }> => {
      const shares: number[] = []
      for (const person of conversations.people)
        shares.push(await conversations.satisfaction(person, model, options.fresh))
      return { shares, facts: await conversations.facts(model) }
    }
    say(`${pipeline.model.name}, engine ${pipeline.serving}; ${options.minutes} minutes, seed ${options.seed}; ${data}`)
    const before = await measure('policy@0')
    say(
      `before: ${conversations.people.map(({ wish }, i) => `${wish.name} ${percent(before.shares[i] ?? 0)}`).join(', ')}`,
    )
    await firstError.orFatal(lineStarted(pipeline))
    const preparationSeconds = seconds()
    say(`the gate knows the base after ${preparationSeconds} s; the conversations begin`)
    begun = Date.now()
    let ended = 0
    await firstError.orFatal(
      conversations.run(
        () => Date.now() - begun >= options.minutes * 60_000,
        () => {
          ended += 1
          if (ended % 12 !== 0) return
          const shares = conversations.people.map((person) => `${person.wish.name} ${percent(recentShare(person))}`)
          say(`${seconds()} s: ${ended} conversations; ${shares.join(', ')}`)
        },
      ),
    )
    const learningSeconds = seconds()
    const head = (await pipeline.line())?.head ?? 0
    const model = `policy@${head}`
    const after = await measure(model)
    const kept = after.facts.filter((_, i) => before.facts[i])
    const result: WishesResult = {
      model: pipeline.model.name,
      engine: pipeline.serving,
      seed: options.seed,
      users: conversations.people.map((person, i) => ({
        name: person.wish.name,
        sessions: person.firstReplies.length,
        last_24: recentShare(person),
        first_reply_ok_before: before.shares[i] ?? 0,
        first_reply_ok_after: after.shares[i] ?? 0,
      })),
      versions: head,
      updates,
      refusals: updates.filter(({ version }) => version === null).length,
      requests: chat.requests,
      failed_requests: chat.failed,
      probes: { asked: before.facts.length, base_correct: kept.length, kept: shareOf(kept) },
      preparation_s: preparationSeconds,
      learning_s: learningSeconds,
      wall_s: (Date.now() - startedAt) / 1000,
      log_bytes: folderBytes(join(data, 'log')),
    }
    if (!options.json) line(summaryText(result))
    if (chat.lastError) line(`error of the last failed request: ${chat.lastError.message}`)
    return result
  }
  try {
    await showDashboard(options.watch, { url: pipeline.url, data }, line)
    const result = await untilStopped(options.watch, run())
    await staysUntilStopped(options.watch, pipeline.url, line)
    return result
  } finally {
    await pipeline.stop()
    if (!options.keep) rmSync(data, { recursive: true, force: true })
  }
}

const summaryText = (result: WishesResult): string =>
  table(
    [
      { name: 'wish', of: (user) => user.name },
      { name: 'conversations', of: (user) => user.sessions },
      { name: 'first reply ok: before', of: (user) => percent(user.first_reply_ok_before) },
      { name: 'after', of: (user) => percent(user.first_reply_ok_after) },
      { name: 'last 24', of: (user) => percent(user.last_24) },
    ],
    result.users,
  ) +
  `${result.model}: version ${result.versions}, ${result.refusals} updates refused; ` +
  `probes kept ${percent(result.probes.kept)} of ${result.probes.base_correct}; ` +
  `${result.requests} requests, ${result.failed_requests} failed; ` +
  `conversations ${result.learning_s.toFixed(0)} s, in all ${result.wall_s.toFixed(0)} s; log ${(result.log_bytes / 1e6).toFixed(1)} MB`
