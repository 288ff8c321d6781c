/** `/submit_steps` and `/generate`: time limit, queue, cancellation. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { decodeRecord, InstarError } from '@instar/events'
import { test, type TestContext } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ScoreRequest } from '@instar/engine/port'
import { model, startRig, turnsOf, USER, type Rig, type RigOptions } from '../../../../test/kit/gateway.ts'
import { logprobOf, ScriptedEngine, type Script } from '../../../../test/kit/scripted-engine.ts'

const rigOf = async (t: TestContext, options: RigOptions): Promise<Rig> => {
  const rig = await startRig(options)
  t.after(() => rig.stop())
  return rig
}

type Scoring = (request: ScoreRequest, signal: AbortSignal | undefined) => Promise<Float32Array>
/** An engine whose `score` is the test's. */
class ScoringEngine extends ScriptedEngine {
  private readonly scoring: Scoring
  scored = 0
  constructor(scoring: Scoring, script: Script = () => 'unused') {
    super(model, script)
    this.scoring = scoring
  }
  override score(request?: ScoreRequest, signal?: AbortSignal): Promise<Float32Array> {
    this.scored += 1
    return this.scoring(request!, signal)
  }
}
const agreeing: Scoring = ({ completion }) => Promise.resolve(Float32Array.from(completion, logprobOf))

const PROMPT = model.promptIds([USER('2+2?')], {})
const IDS = model.encode('Four.')
/** A step that the gateway must score: it names a version and has log-probs. */
const step = (trajectory: string, more: object = {}): object => ({
  trajectory_uid: trajectory,
  prompt_uid: 'p',
  step_index: 0,
  policy_version: 0,
  prompt_ids: PROMPT,
  response_ids: IDS,
  rollout_log_probs: IDS.map(logprobOf),
  ...more,
})
const steps = (count: number): object[] => Array.from({ length: count }, (_, i) => step(`t${i}`))

type Told = { status: number; code: string | undefined; retryAfter: string | null }
const told = async (response: Response): Promise<Told> => {
  const body = (await response.json()) as { error?: { code: string } }
  return { status: response.status, code: body.error?.code, retryAfter: response.headers.get('retry-after') }
}

test('a score that does not come ends with the time limit of an answer; the steps before it are recorded', async (t) => {
  const given = Promise.withResolvers<AbortSignal | undefined>()
  const engine = new ScoringEngine((request, signal) => {
    if (engine.scored < 3) return agreeing(request, signal)
    given.resolve(signal)
    return new Promise((_, reject) => {
      if (!signal) return reject(new Error('the score has no signal'))
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  })
  const rig = await rigOf(t, { engine, settings: { answerTimeoutMs: 1000 } })
  const late = await rig.fetch('/submit_steps', { json: { steps: steps(5) } })
  deepEqual(await told(late), { status: 504, code: 'answer_timeout', retryAfter: null })
  equal((await given.promise)?.aborted, true)
  deepEqual([engine.scored, (await turnsOf(rig.log)).map(({ session }) => session)], [3, ['t0', 't1']])
})

test('a client that leaves ends the scoring of its steps', async (t) => {
  const begun = Promise.withResolvers<AbortSignal | undefined>()
  const engine = new ScoringEngine((request, signal) => {
    begun.resolve(signal)
    return signal
      ? new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
      : agreeing(request, signal)
  })
  const rig = await rigOf(t, { engine })
  const client = new AbortController()
  const sent = rig
    .fetch('/submit_steps', { json: { steps: steps(5) }, signal: client.signal })
    .then(told, () => 'left' as const)
  const signal = await begun.promise
  ok(signal, 'the score has a signal')
  const ended = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
  client.abort()
  await ended
  equal(await sent, 'left')
  for (let metrics = ''; !/route="\/submit_steps".*status="499"} 1/.test(metrics);)
    metrics = await (await rig.fetch('/metrics')).text()
  deepEqual([engine.scored, await turnsOf(rig.log)], [1, []])
})

test("with the engine's queue full, tokens for tokens and steps to score are refused as a chat completion is", async (t) => {
  const engine = new ScoringEngine(agreeing)
  const rig = await rigOf(t, { engine, settings: { maxWaiting: 2 } })
  engine.waiting = 2
  const full = { status: 429, code: 'overloaded', retryAfter: '1' }
  for (const [path, json] of [
    ['/v1/chat/completions', { model: 'policy', messages: [USER('Hi')] }],
    ['/generate', { prompt_ids: PROMPT }],
    ['/submit_steps', { steps: steps(2) }],
  ] as const)
    deepEqual([path, await told(await rig.fetch(path, { json }))], [path, full])
  deepEqual([engine.scored, engine.requests.length, (await turnsOf(rig.log)).length], [0, 0, 0])
  engine.waiting = 1
  for (const [path, json] of [
    ['/generate', { prompt_ids: PROMPT }],
    ['/submit_steps', { steps: steps(2) }],
  ] as const)
    equal((await rig.fetch(path, { json })).status, 200, path)
  deepEqual([engine.scored, engine.requests.length], [2, 1])
})

test('an engine that is lost or busy leaves a step unrecorded: it is confirmed when it is sent again', async (t) => {
  let fault: Error | null = new InstarError('engine_lost', 'The thread of the model ended.')
  const engine = new ScoringEngine((request, signal) => (fault ? Promise.reject(fault) : agreeing(request, signal)))
  const rig = await rigOf(t, { engine })
  deepEqual(await told(await rig.fetch('/submit_steps', { json: { steps: steps(1) } })), {
    status: 503,
    code: 'engine_lost',
    retryAfter: '1',
  })
  deepEqual(await turnsOf(rig.log), [])
  fault = null
  const again = await rig.fetch('/submit_steps', { json: { steps: steps(1) } })
  deepEqual(
    ((await again.json()) as { turns: { tokens: string }[] }).turns.map(({ tokens }) => tokens),
    ['exact'],
  )
})

const stuck = (): { script: Script; begun: Promise<void>; ended: Promise<void> } => {
  const begun = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  const before = (token: number, signal: AbortSignal | undefined): Promise<void> | void => {
    if (token < 1 || signal?.aborted) return
    begun.resolve()
    return new Promise((resolve) => {
      signal?.addEventListener('abort', () => {
        ended.resolve()
        resolve()
      })
    })
  }
  return { script: () => ({ text: 'It goes on.', before }), begun: begun.promise, ended: ended.promise }
}

test('/generate counts as a running request, and ends with its client', async (t) => {
  const { script, begun, ended } = stuck()
  const rig = await rigOf(t, { script })
  const client = new AbortController()
  const left = rig.fetch('/generate', { json: { prompt_ids: PROMPT }, signal: client.signal }).catch(() => 'left')
  await begun
  ok((await (await rig.fetch('/metrics')).text()).includes('\ninstar_requests_running 1\n'))
  client.abort()
  equal(await left, 'left')
  await ended
})

test('/generate ends with the time limit of an answer', async (t) => {
  const { script, ended } = stuck()
  const rig = await rigOf(t, { script, settings: { answerTimeoutMs: 200 } })
  const late = await rig.fetch('/generate', { json: { prompt_ids: PROMPT } })
  deepEqual(await told(late), { status: 504, code: 'answer_timeout', retryAfter: null })
  await ended
})

test('log-probs of a prompt that do not come end with the time limit of an answer', async (t) => {
  const given = Promise.withResolvers<AbortSignal | undefined>()
  const engine = Object.assign(new ScriptedEngine(model, () => 'unused'), {
    scoreWithTop: (_: unknown, signal?: AbortSignal) => {
      given.resolve(signal)
      return new Promise<never>((_resolve, reject) => {
        if (!signal) return reject(new Error('the score has no signal'))
        signal.addEventListener('abort', () => reject(signal.reason as Error))
      })
    },
  })
  const rig = await rigOf(t, { engine, settings: { answerTimeoutMs: 200 } })
  const late = await rig.fetch('/v1/completions', {
    json: { model: 'policy', prompt: 'What is it?', echo: true, logprobs: 1, max_tokens: 0 },
  })
  deepEqual(await told(late), { status: 504, code: 'answer_timeout', retryAfter: null })
  equal((await given.promise)?.aborted, true)
})

test('a step that is longer than the context of the model is refused, and nothing of its request is recorded', async (t) => {
  const rig = await rigOf(t, {})
  const ids = (length: number): number[] => Array.from({ length }, () => PROMPT[0]!)
  const ofLength = (length: number): object =>
    step('long', { prompt_ids: ids(length - 1), response_ids: ids(1), rollout_log_probs: null })
  const refused = await rig.fetch('/submit_steps', { json: { steps: [step('t0'), ofLength(model.contextLength + 1)] } })
  deepEqual(await told(refused), { status: 400, code: 'context_length_exceeded', retryAfter: null })
  deepEqual(await turnsOf(rig.log), [])
  equal((await rig.fetch('/submit_steps', { json: { steps: [ofLength(model.contextLength)] } })).status, 200)
})

test('other requests are served while many steps are read', async (t) => {
  const rig = await rigOf(t, {})
  const many = 400
  let turns = 0
  let counting = true
  const counted = (async () => {
    for (; counting; turns += 1) await nextTurn()
  })()
  const [atFirst, response] = [turns, rig.fetch('/submit_steps', { json: { steps: [...steps(many), {}] } })]
  equal((await response).status, 400)
  counting = false
  await counted
  ok(turns - atFirst >= many, `${turns - atFirst} turns of the event loop`)
})

test('a step and its reward are not of the future, whatever times it names', async (t) => {
  const rig = await rigOf(t, { engine: new ScoringEngine(agreeing) })
  const before = Date.now()
  const response = await rig.fetch('/submit_steps', {
    json: {
      steps: [
        step('t', {
          timestamp: 9e13,
          metadata: { finished_at: '5000-01-01T00:00:00Z', first_token_at: 9e13 },
          reward: 1,
        }),
        step('u', { timestamp: 1000, metadata: { finished_at: 2000 } }),
      ],
    },
  })
  equal(response.status, 200)
  const [late, early] = (await turnsOf(rig.log)).toSorted((a, b) => b.at - a.at)
  for (const at of [late!.at, late!.firstTokenAt, late!.finishedAt]) ok(at >= before && at <= Date.now(), `${at}`)
  deepEqual([early!.at, early!.finishedAt], [1_000_000, 2_000_000])
  for await (const records of rig.log.read('turns'))
    for (const record of records) {
      const { event } = decodeRecord(record)
      if (event.type === 'FeedbackGiven') ok(event.at <= Date.now(), `${event.at}`)
    }
})
