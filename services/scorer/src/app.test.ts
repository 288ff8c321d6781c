/** The whole scorer on a log in memory: captured turns are scored. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import {
  decodeRecord,
  encodeEvent,
  InstarError,
  readWritten,
  written,
  type Event,
  type MemoryScores,
  type ScoresEvent,
  type ScoreState,
  type TurnCaptured,
} from '@instar/events'
import { cutAway, openMemoryLog, type MemoryLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import { WORDINGS } from './core/hints.ts'
import { WAITING_MS } from './core/waiting.ts'
import { createScorer, scorerConfig, type Evidence, type Judge, type Scorer, type ScorerPorts } from './app.ts'
import { captured, feedback, type Said } from '../../../test/kit/scored-history.ts'
import { thanked, versions } from '../../../test/kit/slow-judge.ts'

const user = (content: string): Said => ({ role: 'user', content })
const model = (content: string): Said => ({ role: 'assistant', content })
const chat = (session: string, at: number, ...said: string[]): TurnCaptured[] => {
  const messages: Said[] = []
  const turns: TurnCaptured[] = []
  for (let i = 0; i + 1 < said.length; i += 2) {
    messages.push(user(said[i] ?? ''))
    turns.push(captured({ session, messages: [...messages], answer: said[i + 1] ?? '', at: at + i, name: `t${i / 2}` }))
    messages.push(model(said[i + 1] ?? ''))
  }
  return turns
}

class Bench {
  readonly log: MemoryLog = openMemoryLog()
  readonly #wanted: { count: number; done(scores: ScoresEvent[]): void }[] = []
  readonly scores: ScoresEvent[] = []
  clock = 1000
  fatal: Error | null = null
  readonly timers: { at: number; call(): void }[] = []

  async watch(): Promise<void> {
    await this.log.subscribe({
      topics: ['scores'],
      group: 'watch',
      from: 'start',
      handle: (records) => {
        for (const record of records) this.scores.push(decodeRecord(record).event as ScoresEvent)
        for (const wanted of this.#wanted) if (this.scores.length >= wanted.count) wanted.done([...this.scores])
      },
    })
  }
  until(count: number): Promise<ScoresEvent[]> {
    return new Promise((done) => {
      if (this.scores.length >= count) done([...this.scores])
      else this.#wanted.push({ count, done })
    })
  }
  async say(...events: Event[]): Promise<void> {
    await this.log.append(
      events
        .map((event) => encodeEvent(event))
        .map(({ topic, key, schema, payload, timestamp }) => ({ topic, key, schema, payload, timestamp })),
    )
  }
  ports(more: Partial<ScorerPorts> = {}): ScorerPorts {
    return {
      log: this.log,
      now: () => this.clock,
      onFatal: (error) => {
        this.fatal = error
      },
      after: (ms, call) => {
        const timer = { at: this.clock + ms, call }
        this.timers.push(timer)
        return () => {
          this.timers.splice(this.timers.indexOf(timer) >>> 0, 1)
        }
      },
      ...more,
    }
  }
  /** Advances the clock and runs due timers. */
  pass(ms: number): void {
    this.clock += ms
    for (const timer of this.timers.splice(0)) {
      if (timer.at <= this.clock) timer.call()
      else this.timers.push(timer)
    }
  }
}
const started = async (
  bench: Bench,
  settings: Parameters<typeof scorerConfig.parse>[0] = {},
  more: Partial<ScorerPorts> = {},
): Promise<Scorer> => {
  const scorer = createScorer(bench.ports(more), scorerConfig.parse(settings))
  await scorer.start()
  return scorer
}

test('a complaint in the next message scores the turn, with a hint', async () => {
  const bench = new Bench()
  await bench.watch()
  const scorer = await started(bench)
  const turns = chat(
    's',
    10,
    'What is 7 plus 6?',
    '**13**',
    'Without the bold, please.',
    '13',
    'Thank you!',
    'Any time.',
  )
  await bench.say(turns[0]!, turns[1]!)
  const [score] = await bench.until(1)
  assert.ok(score?.type === 'TurnScored')
  assert.deepEqual([score.turn, score.reward, score.cause], [turns[0]!.turn, -1, turns[1]!.turn])
  assert.ok(score.hint && WORDINGS.unformatted.includes(readWritten(score.hint)))
  assert.match(score.judge, /^reactions-[0-9a-f]{12}$/)
  await bench.say(turns[2]!)
  const second = (await bench.until(2))[1]
  assert.ok(second?.type === 'TurnScored' && second.reward === 1 && second.hint === null)
  await scorer.stop()
  assert.equal(bench.fatal, null)
})

test('the reactions judge scores a turn within milliseconds of its next state', async (t) => {
  const bench = new Bench()
  await bench.watch()
  const scorer = await started(bench)
  const took: number[] = []
  for (let i = 0; i < 20; i += 1) {
    const turns = chat(`s${i}`, 10, 'What is 7 plus 6?', '13', 'Could you say a bit more?', 'Yes.')
    await bench.say(turns[0]!)
    const from = performance.now()
    await bench.say(turns[1]!)
    await bench.until(i + 1)
    took.push(performance.now() - from)
  }
  await scorer.stop()
  const median = took.sort((a, b) => a - b)[10]!
  t.diagnostic(`median ${median.toFixed(2)} ms`)
  assert.ok(median < 10, `${median} ms`)
})

test('feedback revises a score, and an idle session is closed with its last turn skipped', async () => {
  const bench = new Bench()
  await bench.watch()
  const metrics = createMetrics()
  const scorer = await started(bench, { idleMs: 5000 }, { metrics })
  const turns = chat('s', 900, 'Hi', 'Hello', 'Thanks a lot.', 'You are welcome.')
  await bench.say(...turns)
  await bench.until(1)
  await bench.say(feedback('s', turns[0]!.turn, -1, 950, 'f1', 'far too short'))
  const revised = (await bench.until(2))[1]
  assert.ok(revised?.type === 'ScoreRevised' && revised.reward === -1 && revised.judge === 'feedback')
  assert.ok(revised.hint && WORDINGS.longer.includes(readWritten(revised.hint)))
  bench.pass(6000)
  const skip = (await bench.until(3))[2]
  assert.ok(skip?.type === 'TurnSkipped' && skip.turn === turns[1]!.turn && skip.reason === 'no_next_state')
  assert.match(await metrics.text(), /^instar_sessions_closed_total 1$/m)
  await scorer.stop()
})

test('a killed scorer scores after its restart what was open, and nothing twice', async () => {
  const bench = new Bench()
  await bench.watch()
  const turns = chat('s', 10, 'a', 'b', 'Thanks!', 'c', 'That is wrong.', 'd')
  const scorer = await started(bench)
  await bench.say(turns[0]!, turns[1]!)
  await bench.until(1)
  await scorer.stop()
  await bench.say(turns[2]!)
  const again = await started(bench)
  const scores = await bench.until(2)
  await again.stop()
  const third = await started(bench)
  await third.stop()
  assert.deepEqual(
    scores.map((score) => score.turn),
    [turns[0]!.turn, turns[1]!.turn],
  )
  assert.equal(bench.scores.length, 2)
})

test('an episode that a client ends has its outcome on `scores` once, also after a restart of the scorer', async () => {
  const bench = new Bench()
  await bench.watch()
  const scorer = await started(bench)
  const turns = chat('s', 10, 'Sort it.', 'Done.').map((turn) => ({ ...turn, task: 'sort' }))
  const open = turns.map(({ turn }) => turn)
  await bench.say(...turns)
  await bench.until(1)
  await bench.say({ type: 'SessionClosed', session: 's', open, why: 'client', outcome: 0.5, at: 20 })
  const said = (await bench.until(3)) as Event[]
  const [end] = said.filter((event) => event.type === 'EpisodeEnded')
  assert.deepEqual(said.map(({ type }) => type).sort(), ['EpisodeBegun', 'EpisodeEnded', 'TurnSkipped'])
  assert.deepEqual([end?.outcome, end?.task, end?.turns, end?.endedAt], [0.5, 'sort', open, 20])
  assert.equal(await scorer.settled(), true)
  await scorer.stop()
  const again = await started(bench)
  assert.equal(await again.settled(), true)
  await again.stop()
  assert.equal((await bench.until(3)).length, 3)
})

test('an episode that runs has its beginning on `scores` once, also after a restart of the scorer', async () => {
  const bench = new Bench()
  await bench.watch()
  const scorer = await started(bench)
  const [turn] = chat('s', 10, 'Sort it.', 'Done.').map((one) => ({ ...one, task: 'sort' }))
  await bench.say(turn!)
  const [begin] = (await bench.until(1)) as Event[]
  assert.ok(begin?.type === 'EpisodeBegun')
  assert.deepEqual([begin.session, begin.task, begin.key, begin.begunAt], ['s', 'sort', turn!.key, 10])
  assert.equal(await scorer.settled(), true)
  await scorer.stop()
  const again = await started(bench)
  const another = captured({ session: 's', messages: [user('Again.')], answer: 'Done.', at: 15, name: 'another' })
  await bench.say({ ...another, task: 'sort' })
  assert.equal(await again.settled(), true)
  await again.stop()
  assert.equal((await bench.until(1)).length, 1)
})

test('of two concurrent scorers one score counts per turn', async () => {
  const bench = new Bench()
  await bench.watch()
  const allAsked = Promise.withResolvers<void>()
  let asked = 0
  const judge = (id: string, value: number): Judge => ({
    id,
    needsNextState: true,
    async judge() {
      if (++asked === 40) allAsked.resolve()
      await allAsked.promise
      return { value, note: '', hint: null }
    },
  })
  const a = await started(bench, { concurrency: 20 }, { judges: [judge('a', 1)] })
  const b = await started(bench, { concurrency: 20 }, { judges: [judge('b', -1)] })
  const sessions = Array.from({ length: 20 }, (_, i) => chat(`s${i}`, 10, 'a', `b${i}`, 'c', `d${i}`))
  for (const turns of sessions) await bench.say(...turns)
  await bench.until(40)
  await a.stop()
  await b.stop()
  const reader = await started(bench)
  const held = ({ state }: Scorer): ScoreState[] => [
    ...((state.scores.get('policy') as MemoryScores | undefined)?.turns.values() ?? []),
  ]
  const counted = held(reader)
  assert.equal(counted.length, 20)
  assert.ok(counted.every((score) => score.revision === 0))
  assert.equal(bench.scores.length, 40)
  for (const scorer of [a, b])
    for (const { turn, score } of held(scorer))
      assert.equal(reader.state.scores.get('policy')!.turns.get(turn)!.score, score)
  await reader.stop()
})

test('turns that another scorer has scored are not judged, and a late verdict is not written', async () => {
  const bench = new Bench()
  await bench.watch()
  const slow = Promise.withResolvers<void>()
  const asked: string[] = []
  const judge: Judge = {
    id: 'slow',
    needsNextState: true,
    async judge({ answer }) {
      asked.push(answer)
      await slow.promise
      return { value: -1, note: '', hint: null }
    },
  }
  const late = await started(bench, { concurrency: 1 }, { judges: [judge] })
  for (const i of [0, 1, 2]) await bench.say(...chat(`s${i}`, 10, 'a', `b${i}`, 'c', `d${i}`))
  const quick = await started(
    bench,
    {},
    { judges: [{ id: 'quick', needsNextState: true, judge: () => ({ value: 1, note: '', hint: null }) }] },
  )
  await bench.until(3)
  slow.resolve()
  await bench.say(...chat('s3', 10, 'a', 'b3', 'c', 'd3'))
  await bench.until(4)
  await Promise.all([late.stop(), quick.stop()])
  assert.deepEqual(asked.slice(0, 1), ['b0'])
  assert.ok(!asked.includes('b1') && !asked.includes('b2'), asked.join())
  assert.deepEqual(
    bench.scores.slice(0, 3).map((score) => score.type === 'TurnScored' && score.reward),
    [1, 1, 1],
  )
})

test('a judge gets the text that a user typed inside a wrapper of an agent, beside the whole message', async () => {
  const bench = new Bench()
  await bench.watch()
  const seen: Evidence[] = []
  const judge: Judge = {
    id: 'seer',
    needsNextState: true,
    judge: (evidence) => {
      seen.push(evidence)
      return Promise.resolve({ value: 1, note: '', hint: null })
    },
  }
  const scorer = await started(bench, {}, { judges: [judge] })
  const asked = '<system-reminder>as a list</system-reminder>'
  const said = '<system-reminder>that was wrong</system-reminder>'
  await bench.say(...chat('s', 900, `Name two.${asked}`, 'Ann, Bob', `Thanks.${said}`, 'Yes.', 'Fine.', 'Good.'))
  await bench.until(2)
  assert.deepEqual(
    seen.map(({ request, next, wrapped }) => [request, next?.user, wrapped]),
    [
      ['Name two.', 'Thanks.', `${asked}\n${said}`],
      ['Thanks.', 'Fine.', said],
    ],
  )
  await scorer.stop()
})

test('judges that are chosen while the scorer runs judge from the next turn on, with the backlog of a slow judge', async () => {
  const bench = new Bench()
  await bench.watch()
  const scorer = await started(bench, { backlog: 1, concurrency: 1 })
  await bench.say(...chat('s0', 10, 'Hi', 'Hello.', 'Thank you, perfect!', 'Yes.'))
  await bench.until(1)
  const asked = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  scorer.useJudges([
    {
      id: 'model',
      needsNextState: false,
      async judge() {
        asked.resolve()
        await held.promise
        return { value: -1, note: '', hint: null }
      },
    },
  ])
  await bench.say(...chat('s1', 20, 'a', 'b1', 'c', 'd'))
  await asked.promise
  await bench.say(...chat('s2', 30, 'a', 'b2', 'c', 'd'), ...chat('s3', 40, 'a', 'b3', 'c', 'd'))
  const shed = (await bench.until(2))[1]
  assert.deepEqual([shed?.type, shed?.type === 'TurnSkipped' && shed.reason], ['TurnSkipped', 'overloaded'])
  held.resolve()
  const scores = await bench.until(4)
  assert.deepEqual(
    scores.map((score) => (score.type === 'TurnScored' ? score.judge.split('-')[0] : 'skipped')),
    ['reactions', 'skipped', 'model', 'model'],
  )
  await scorer.stop()
})

test('a turn that cannot be read while the log is away is scored when it is back, and the scorer goes on', async () => {
  const bench = new Bench()
  await bench.watch()
  const at = bench.log.at.bind(bench.log)
  let away = 3
  bench.log.at = (position) =>
    (away -= 1) >= 0 ? Promise.reject(new InstarError('log_unavailable', 'away')) : at(position)
  const fatal = Promise.withResolvers<never>()
  await bench.say(...chat('s', 10, 'What is 7 plus 6?', '**13**', 'Without the bold, please.', '13'))
  const scorer = await started(bench, {}, { onFatal: fatal.reject })
  const [score] = await Promise.race([bench.until(1), fatal.promise])
  assert.equal(score?.type === 'TurnScored' && score.reward, -1)
  assert.ok(away < 0)
  await scorer.stop()
})

for (const code of ['log_cut', 'archive_differs', 'archive_damaged', 'archive_unavailable'] as const)
  test(`a turn that cannot be read for ${code} ends the scorer and is not skipped`, async () => {
    const bench = new Bench()
    bench.log.at = () => Promise.reject(code === 'log_cut' ? cutAway('turns', 0, 1) : new InstarError(code, 'away'))
    const fatal = Promise.withResolvers<Error>()
    await bench.say(...chat('s', 10, 'What is 7 plus 6?', '**13**', 'Without the bold, please.', '13'))
    await bench.watch()
    const scorer = await started(bench, {}, { onFatal: fatal.resolve })
    const ended = await Promise.race([fatal.promise, bench.until(1)])
    assert.ok(ended instanceof InstarError && ended.code === code, JSON.stringify(ended))
    assert.deepEqual(bench.scores, [])
    await scorer.stop()
  })

test('feedback on a turn that was cut, without an archive, counts by itself', async () => {
  const bench = new Bench()
  bench.log.at = () => Promise.reject(cutAway('turns', 0, 1))
  await bench.watch()
  const fatal = Promise.withResolvers<never>()
  const [turn] = chat('s', 10, 'What is 7 plus 6?', '13')
  await bench.say(turn!, feedback('s', turn!.turn, -1, 950, 'f', 'far too short'))
  const scorer = await started(bench, {}, { onFatal: fatal.reject })
  const [score] = await Promise.race([bench.until(1), fatal.promise])
  assert.equal(score?.type === 'TurnScored' && score.reward, -1)
  await scorer.stop()
})

test('a judge that throws gives a skip', async () => {
  const bench = new Bench()
  await bench.watch()
  const scorer = await started(
    bench,
    {},
    {
      judges: [
        {
          id: 'j',
          needsNextState: true,
          judge: () => {
            throw new Error('no')
          },
        },
      ],
    },
  )
  await bench.say(...chat('s', 10, 'a', 'b', 'c', 'd'))
  const [skip] = await bench.until(1)
  await scorer.stop()
  assert.ok(skip?.type === 'TurnSkipped')
  const [verdict] = skip.verdicts
  assert.deepEqual(
    [skip.reason, skip.verdicts.length, verdict?.judge, verdict?.value, verdict?.note],
    ['judge_failed', 1, 'j', null, 'failed: Error'],
  )
})

/** A log whose reads of single records wait for the next pass of the event loop, and what was read at a time, at most. */
const watched = (log: MemoryLog, fails: (offset: number) => boolean = () => false) => {
  const most = { reads: 0 }
  let reads = 0
  const at: MemoryLog['at'] = async (place) => {
    if (fails(place.offset)) throw new RangeError('too much for what reads it')
    reads += 1
    most.reads = Math.max(most.reads, reads)
    await setImmediate()
    reads -= 1
    return log.at(place)
  }
  const proxy: MemoryLog = new Proxy(log, {
    get(target, name) {
      if (name === 'at') return at
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  return { most, proxy }
}

test('the turns of feedback are read by as many at once as judges work at once', async () => {
  const bench = new Bench()
  await bench.watch()
  const { most, proxy } = watched(bench.log)
  const turns = Array.from({ length: 40 }, (_, i) => chat(`s${i}`, 10, 'What is 7 plus 6?', '13')[0]!)
  await bench.say(...turns)
  const scorer = await started(bench, { concurrency: 3 }, { log: proxy })
  await bench.say(...turns.map(({ session, turn }, i) => feedback(session, turn, -1, 950, `f${i}`, 'far too short')))
  const scores = await bench.until(40)
  assert.ok(scores.every((score) => score.type === 'TurnScored' && score.reward === -1))
  assert.equal(most.reads, 3)
  assert.equal(bench.fatal, null)
  await scorer.stop()
})

test('turns that were received while the scorer runs are judged without another read; a second record of a turn is not taken', async () => {
  const bench = new Bench()
  await bench.watch()
  const { most, proxy } = watched(bench.log)
  const seen: string[] = []
  const judge: Judge = {
    id: 'seer',
    needsNextState: true,
    judge: ({ answer, next }) => {
      seen.push(`${answer} ${next?.user}`)
      return Promise.resolve({ value: 1, note: '', hint: null })
    },
  }
  const scorer = await started(bench, {}, { log: proxy, judges: [judge] })
  const [first, second, third] = chat('s', 10, 'What is 7 plus 6?', '13', 'Thank you!', 'Any time.', 'Bye.', 'Bye.')
  await bench.say(first!, { ...first!, text: written('14'), at: first!.at + 1 }, second!, third!)
  await bench.until(2)
  assert.deepEqual(seen.toSorted(), ['13 Thank you!', 'Any time. Bye.'])
  assert.equal(most.reads, 0)
  await scorer.stop()
})

test('a turn that breaks what reads it is skipped, its feedback counts, and the others are judged', async () => {
  const bench = new Bench()
  await bench.watch()
  const lines: string[] = []
  const { proxy } = watched(bench.log, (offset) => offset === 0)
  const [bad, after] = chat('bad', 10, 'What is 7 plus 6?', '13', 'Thank you!', 'Any time.')
  const [good, later] = chat('good', 10, 'What is 7 plus 6?', '13', 'Thank you!', 'Any time.')
  await bench.say(bad!, after!, good!, later!)
  const scorer = await started(bench, {}, { log: proxy, logLine: (line) => lines.push(line) })
  const scores = await bench.until(2)
  const of = (turn: string) => scores.find((score) => score.turn === turn)
  assert.deepEqual([of(bad!.turn)?.type, of(good!.turn)?.type], ['TurnSkipped', 'TurnScored'])
  await bench.say(feedback('bad', bad!.turn, 1, 950, 'f1'))
  const [, , revised] = await bench.until(3)
  assert.ok(revised?.type === 'ScoreRevised' && revised.reward === 1)
  assert.match(lines.join('\n'), /cannot be read for its judge: RangeError/)
  assert.equal(bench.fatal, null)
  await scorer.stop()
})

test('a score states the times of the turns to which prompt and body of its turn refer', async () => {
  const bench = new Bench()
  await bench.watch()
  const [first, second, third, fourth] = chat('s', 10, 'One?', 'A.', 'No.', 'B.', 'No.', 'C.', 'No, plain.', 'D.')
  const refers = (turn: TurnCaptured, to: TurnCaptured, prefix: number): TurnCaptured => ({
    ...turn,
    prompt: { from: to.turn, prefix, ids: [9], length: prefix + 1 },
  })
  await bench.say(first!, refers(second!, first!, 5), refers(third!, second!, 8), fourth!)
  const scorer = await started(bench)
  const scores = new Map((await bench.until(3)).map((score) => [score.turn, score.of]))
  assert.deepEqual(
    [first, second, third].map((turn) => scores.get(turn!.turn)?.earlier),
    [[], [10], [10, 12]],
  )
  assert.deepEqual(scores.get(third!.turn)?.begunAt, 10)
  await scorer.stop()
})

test('held turns are looked at after ten minutes without a record, also where sessions go quiet later', async () => {
  const bench = new Bench()
  await bench.watch()
  await bench.say(...versions(1), ...[0, 1, 2, 3, 4, 5].flatMap((n) => thanked(n, 1)))
  const judges = [
    { id: 'slow', needsNextState: true, judge: () => Promise.resolve({ value: 1, note: '', hint: null }) },
  ]
  const settings = { idleMs: 6 * WAITING_MS, batchSize: 2, batchMax: 2, waitingBatches: 2, duplicates: 64 }
  const scorer = await started(bench, settings, { judges })
  await bench.until(4)
  while (!(await scorer.settled())) await setImmediate()
  assert.deepEqual([scorer.work().held, bench.scores.length], [2, 4])
  bench.pass(WAITING_MS)
  assert.deepEqual([scorer.work().held, scorer.work().judging], [0, 2])
  await bench.until(6)
  await scorer.stop()
  assert.equal(bench.fatal, null)
})
