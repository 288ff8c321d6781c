/**
 * One version line: gateway, scorer and, where it learns, trainer and publisher on a log in memory. Its engines are
 * shared with other lines, its adapters are not. Ids come from the seed and time stands still within a request, so that
 * the same requests in the same order give the same line.
 */
import { decodeRecord, readWritten, weightLine } from '@instar/events'
import type { ServingEngine } from '@instar/engine/port'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { openMemoryLog } from '@instar/log'
import { createPublisher } from '@instar/publisher'
import { createScorer } from '@instar/scorer'
import { createTrainer, type TrainerConfig } from '@instar/trainer'
import { createFirstError } from '../../cli/src/demo/first-error.ts'
import { seeded } from '../../models/tiny/recipe/random.ts'
import type { Engines } from './engines.ts'

export type Message = { role: 'system' | 'user' | 'assistant'; content: string }
export type Request = {
  messages: readonly Message[]
  user: string
  seed: number
  temperature: number
  maxTokens: number
  /** Null: a request of the measurement, which is not learned from. */
  session: string | null
}
/** What the scorer recorded of a turn. */
export type Verdict = { reward: number; hint: string | null }

export type Line = {
  answer(request: Request): Promise<{ text: string; turn: string }>
  /** Resolves when every turn is scored and every batch has its verdict, and the version that came of them serves. */
  settled(): Promise<void>
  /** Of a turn that had an opinion; undefined: it had none, or is not scored. Complete after `settled`. */
  verdict(turn: string): Verdict | undefined
  /** `klBase`: of the last version, nats per token on the gate's samples; null without one. */
  figures(): { versions: number; refused: number; klBase: number | null }
  stop(): Promise<void>
}

const POLL_MS = 5
const START = 1_700_000_000_000
const BETWEEN_REQUESTS_MS = 1_000

/** The engine, and the unloading of all adapters that were loaded through it. */
const withOwnAdapters = (engine: ServingEngine): { engine: ServingEngine; unloadAll(): Promise<void> } => {
  const loaded = new Set<string>()
  return {
    engine: new Proxy(engine, {
      get(target, name) {
        if (name === 'load')
          return async (adapter: Parameters<ServingEngine['load']>[0]) => {
            await target.load(adapter)
            loaded.add(adapter.sha256)
          }
        if (name === 'unload')
          return async (sha256: string) => {
            await target.unload(sha256)
            loaded.delete(sha256)
          }
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
      },
    }),
    async unloadAll() {
      for (const sha256 of loaded) await engine.unload(sha256)
    },
  }
}

/** `loss` null: nothing is learned. */
export const startLine = async (
  { serving, learner, model, probes, learning }: Engines,
  loss: TrainerConfig['loss'] | null,
  seed: number,
): Promise<Line> => {
  const log = openMemoryLog()
  const own = withOwnAdapters(serving)
  const firstError = createFirstError()
  const { onFatal } = firstError
  let clock = START
  const now = (): number => clock
  const draw = seeded(seed)
  const random = (bytes: number): Uint8Array => Uint8Array.from({ length: bytes }, () => Math.floor(draw() * 256))
  const figures = { versions: 0, refused: 0, klBase: null as number | null }
  const verdicts = new Map<string, Verdict>()

  const scorer = createScorer({ log, now, onFatal }, learning.scorer)
  const trainer =
    loss === null ? null : createTrainer({ log, learner, model, now, onFatal }, { ...learning.trainer, loss })
  const publisher =
    loss === null
      ? null
      : createPublisher(
          {
            log,
            evaluator: learner,
            model,
            probes,
            now,
            onFatal,
            onProgress({ phase, figures: { kl_base: klBase = null } }) {
              if (phase === 'rejected') figures.refused += 1
              else Object.assign(figures, { versions: figures.versions + 1, klBase })
            },
          },
          learning.publisher,
        )
  const gateway = createGateway(
    { log, engine: own.engine, model, now, random, onFatal },
    gatewayConfig({ port: 0, logLevel: 'silent' }),
  )
  const scores = await log.subscribe({
    topics: ['scores'],
    group: 'eval',
    from: 'start',
    handle(records) {
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type !== 'TurnScored' || verdicts.has(event.turn)) continue
        verdicts.set(event.turn, { reward: event.reward, hint: event.hint === null ? null : readWritten(event.hint) })
      }
    },
  })
  await Promise.all([scorer.start(), trainer?.start(), publisher?.start()])
  const { url } = await gateway.start()

  const isSettled = async (): Promise<boolean> => {
    const [scored, trained] = [await scorer.settled(), trainer === null || (await trainer.settled())]
    return (
      scored &&
      trained &&
      (publisher === null || weightLine(publisher.state.weights, publisher.state.policy).started !== null)
    )
  }
  const settle = async (): Promise<void> => {
    while (!(await isSettled()))
      await new Promise((resolve) => {
        setTimeout(resolve, POLL_MS)
      })
    await gateway.servesHead()
    await scores.caughtUp()
  }

  return {
    async answer({ messages, user, seed: sampling, temperature, maxTokens, session }) {
      clock += BETWEEN_REQUESTS_MS
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          ...(session === null ? { 'x-instar-no-train': '1' } : { 'x-session-id': session }),
        },
        body: JSON.stringify({ model: 'policy', messages, user, seed: sampling, temperature, max_tokens: maxTokens }),
      })
      if (!response.ok) throw new Error(`HTTP ${response.status}: ${await response.text()}`)
      const body = (await response.json()) as { choices: { message: { content: string | null } }[] }
      return { text: body.choices[0]?.message.content ?? '', turn: response.headers.get('x-instar-turn-id') ?? '' }
    },
    settled: () => firstError.orFatal(settle()),
    verdict: (turn) => verdicts.get(turn),
    figures: () => ({ ...figures }),
    async stop() {
      await gateway.stop()
      await scorer.stop()
      await trainer?.stop()
      await publisher?.stop()
      await scores.stop()
      await own.unloadAll()
      await log.close()
    },
  }
}
