/** A group of candidates for one request: the client gets the first and waits for none of the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  answerKey,
  decodeRecord,
  foldTurns,
  initialTurns,
  InstarError,
  type Logged,
  type TurnsEvent,
  type TurnSampled,
} from '@instar/events'
import { createTurnReader, openMemoryLog, type EventLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import { eventsOf, Publisher, sse, startRig, turnsOf, USER, withAppend } from '../../../../test/kit/gateway.ts'
import { gate } from '../../../../test/kit/scripted-engine.ts'

const ASKED = { model: 'policy', temperature: 1, messages: [USER('Hi')] }

/** The first `count` candidates that were not shown, once they are on the log. */
const sampled = async (log: EventLog, count: number): Promise<TurnSampled[]> => {
  const found: TurnSampled[] = []
  const enough = Promise.withResolvers<void>()
  const subscription = await log.subscribe({
    topics: ['turns'],
    group: 'test',
    from: 'start',
    handle(records) {
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type === 'TurnSampled' && found.push(event) === count) enough.resolve()
      }
    },
  })
  await enough.promise
  await subscription.stop()
  return found.sort((a, b) => a.candidate - b.candidate)
}

const foldOf = async (log: EventLog) => {
  const state = initialTurns()
  for await (const batch of log.read('turns'))
    for (const record of batch) foldTurns(state, decodeRecord(record) as Logged<TurnsEvent>)
  return state
}

test('the client gets the first candidate at once, and the others follow with the same prompt and version', async () => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const adapter = await publisher.publish(0)
  const quiet = gate()
  const rig = await startRig({
    log,
    settings: { candidates: 3 },
    script: ({ sampling }) => ({
      text: `Answer ${sampling.seed}`,
      before: () => (rig.engine.requests.length > 1 ? quiet.passed : undefined),
    }),
  })
  try {
    const response = await rig.fetch('/v1/chat/completions', {
      json: { ...ASKED, stream: true },
      headers: { 'x-session-id': 'talk' },
    })
    const lines: string[] = []
    for await (const line of sse(response)) lines.push(line)
    assert.equal(lines.at(-1), '[DONE]')
    assert.equal(response.headers.get('x-instar-turn-ids'), null)
    const [shown] = await turnsOf(log)
    await publisher.publish(1)
    quiet.open()
    const others = await sampled(log, 2)
    assert.deepEqual([shown!.candidate, shown!.candidates, shown!.version], [0, 3, 1])
    assert.deepEqual(
      others.map(({ group, candidate, candidates, version, adapter: by, session, trainable, tokens }) => ({
        group,
        candidate,
        candidates,
        version,
        by,
        session,
        trainable,
        tokens,
      })),
      [1, 2].map((candidate) => ({
        group: shown!.group,
        candidate,
        candidates: 3,
        version: 1,
        by: adapter,
        session: shown!.session,
        trainable: true,
        tokens: 'exact',
      })),
    )
    assert.equal(new Set([shown!, ...others].map(({ sampling }) => sampling.seed)).size, 3)
    const { seed: _, ...sampling } = shown!.sampling
    for (const {
      sampling: { seed, ...same },
      text,
    } of others) {
      assert.deepEqual(same, sampling)
      assert.equal(new TextDecoder().decode(text.bytes), `Answer ${seed}`)
    }
    const fold = await foldOf(log)
    const reader = createTurnReader(log, (turn) => fold.turns.get(turn))
    for (const { turn } of others) {
      assert.equal(Buffer.compare(await reader.body(turn), await reader.body(shown!.turn)), 0)
      assert.deepEqual(await reader.promptIds(turn), await reader.promptIds(shown!.turn))
    }
  } finally {
    await rig.stop()
  }
})

test('a request interrupts background candidates, which restart with the same seeds and are never joined or continued', async () => {
  const held = gate()
  const begun = gate()
  const rig = await startRig({
    settings: { candidates: 2 },
    script: ({ sampling }, prompt) => ({
      text: 'Always this.',
      before: (_token, signal) => {
        if (
          prompt.includes('Hi') &&
          !prompt.includes('Always') &&
          seeds.push(sampling.seed) &&
          new Set(seeds).size > 1
        ) {
          begun.open()
          return Promise.race([
            held.passed,
            new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true })),
          ])
        }
      },
    }),
  })
  const seeds: number[] = []
  try {
    const ask = async (messages: object[]) =>
      (await rig.fetch('/v1/chat/completions', { json: { ...ASKED, messages } })).json()
    await ask([USER('Hi')])
    await begun.passed
    await ask([USER('Hi'), { role: 'assistant', content: 'Always this.' }, USER('Go on')])
    assert.equal(rig.engine.aborted, 1, 'it made room')
    held.open()
    const others = await sampled(rig.log, 2)
    const turns = await turnsOf(rig.log)
    assert.deepEqual(
      turns.map(({ type }) => type),
      ['TurnCaptured', 'TurnCaptured'],
      'what made room left nothing',
    )
    assert.deepEqual(others.map(({ group }) => group).sort(), turns.map(({ group }) => group).sort())
    const again = others.find(({ group }) => group === turns[0]!.group)!.sampling.seed
    assert.equal(rig.engine.requests.filter(({ sampling }) => sampling.seed === again).length, 2)
    await ask([
      USER('Hi'),
      { role: 'assistant', content: 'Always this.' },
      USER('Go on'),
      { role: 'assistant', content: 'Always this.' },
      USER('And on'),
    ])
    const fold = await foldOf(rig.log)
    const session = fold.sessions.get(turns[0]!.session)!
    const [first, second, third] = session.turns.filter(({ shown }) => shown)
    assert.deepEqual([first?.next, second?.next, third?.follows], [second?.turn, third?.turn, second?.turn])
    assert.equal(fold.sessions.size, 1)
    assert.ok(
      session.turns
        .filter(({ shown }) => !shown)
        .every(
          ({ next, follows, answer }) =>
            next === null && follows === null && answer.strict === answerKey('Always this.', []).strict,
        ),
    )
  } finally {
    await rig.stop()
  }
})

test('greedy requests, requests with n, opted-out requests and requests beyond the budget have no background candidates', async () => {
  const rig = await startRig({ settings: { candidates: 4, candidateTokens: 1 } })
  try {
    await rig.fetch('/v1/chat/completions', { json: { ...ASKED, temperature: 0 } })
    await rig.fetch('/v1/chat/completions', { json: { ...ASKED, n: 2 } })
    await rig.fetch('/v1/chat/completions', { json: ASKED, headers: { 'x-instar-no-train': '1' } })
    assert.deepEqual(
      (await turnsOf(rig.log)).map(({ candidates }) => candidates),
      [1, 2, 2, 1],
    )
    await rig.fetch('/v1/chat/completions', { json: ASKED })
    await sampled(rig.log, 3)
    await rig.fetch('/v1/chat/completions', { json: ASKED })
    assert.deepEqual(
      (await turnsOf(rig.log)).slice(-2).map(({ candidates }) => candidates),
      [4, 1],
    )
  } finally {
    await rig.stop()
  }
})

test('an interrupted candidate is charged as a recorded one', async () => {
  const [held, begun] = [gate(), gate()]
  const text = 'One two three four five six.'
  const rig = await startRig({
    settings: { candidates: 2, candidateTokens: 3 },
    script: () => ({
      text,
      before: (token, signal) => {
        if (token !== 4 || rig.engine.requests.length !== 2) return
        begun.open()
        return Promise.race([
          held.passed,
          new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true })),
        ])
      },
    }),
  })
  try {
    await rig.fetch('/v1/chat/completions', { json: ASKED })
    await begun.passed
    await rig.fetch('/v1/chat/completions', { json: { ...ASKED, messages: [USER('Hello')] } })
    assert.equal(rig.engine.aborted, 1)
    const [one] = await sampled(rig.log, 1)
    assert.deepEqual(
      (await turnsOf(rig.log)).map(({ candidates }) => candidates),
      [2, 1],
      'the four tokens of the first try were more than there were',
    )
    assert.ok(one!.ids.length > 4)
  } finally {
    await rig.stop()
  }
})

test('the record of a background candidate does not count as a lost answer', async () => {
  const metrics = createMetrics()
  const memory = openMemoryLog()
  const tried = gate()
  const log = withAppend(memory, (records, next) => {
    if (!records.some(({ schema }) => schema.startsWith('TurnSampled'))) return next()
    tried.open()
    throw new InstarError('log_unavailable', 'away')
  })
  const rig = await startRig({ log, ports: { metrics }, settings: { candidates: 2, appendPatienceMs: 0 } })
  try {
    assert.equal((await rig.fetch('/v1/chat/completions', { json: ASKED })).status, 200)
    await tried.passed
    while (!(await metrics.text()).includes('instar_background_candidates_total{outcome="failed"} 1'))
      await new Promise(setImmediate)
    assert.match(await metrics.text(), /^instar_answers_lost_total 0$/m)
  } finally {
    await rig.stop()
  }
})

test(
  'a failure of the engine ends background candidates alone, and a stop leaves no record of them',
  { timeout: 30_000 },
  async () => {
    const metrics = createMetrics()
    const stuck = gate()
    const failing = await startRig({
      ports: { metrics },
      settings: { candidates: 3 },
      script: () => ({
        text: 'Yes.',
        before: () => {
          if (failing.engine.requests.length > 1) throw new InstarError('engine_lost', 'gone')
        },
      }),
    })
    try {
      assert.equal((await failing.fetch('/v1/chat/completions', { json: ASKED })).status, 200)
      while (!(await metrics.text()).includes('instar_background_candidates_total{outcome="failed"} 2'))
        await new Promise(setImmediate)
      assert.deepEqual(
        (await eventsOf(failing.log)).map(({ type }) => type),
        ['TurnCaptured'],
      )
      assert.equal((await failing.fetch('/health/ready')).status, 200)
    } finally {
      await failing.stop()
    }
    const stopped = await startRig({
      settings: { candidates: 2 },
      script: () => ({
        text: 'Yes.',
        before: (_, signal) => {
          if (stopped.engine.requests.length < 2) return
          stuck.open()
          return new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve(), { once: true }))
        },
      }),
    })
    await stopped.fetch('/v1/chat/completions', { json: ASKED })
    await stuck.passed
    await stopped.stop()
    assert.deepEqual(
      (await eventsOf(stopped.log)).map(({ type }) => type),
      ['TurnCaptured'],
    )
  },
)
