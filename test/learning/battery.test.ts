/** The probes of a line, from the base's answers at its start to the verdicts, through trainer and publisher. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { decodeRecord, encodeEvent, TOPICS, type Event } from '@instar/events'
import { openMemoryLog, type MemoryLog } from '@instar/log'
import type { EvaluateRequest, Evaluation } from '@instar/engine/port'
import {
  createPublisher,
  mostTokens,
  NO_PROBES,
  publisherConfig,
  type Probe,
  type ProbeSet,
  type Publisher,
} from '@instar/publisher'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { captured } from '../kit/scored-history.ts'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'

type PublisherSettings = { battery?: { kept?: number; seconds?: number }; maxTokens?: number; fixedSamples?: number }

/** A prompt is the character codes of its last message. */
const model = {
  ...SCRIPTED_MODEL,
  contextLength: 512,
  promptIds: (messages: readonly { content: unknown }[]) =>
    [...String(messages.at(-1)?.content)].map((char) => char.charCodeAt(0)),
}

/**
 * Answers `q<n>` with `a<n>`, in two tokens; wrong, sampled, where 5 divides n; wrong, also greedily, where 2 divides
 * n.
 */
class Answers extends ScriptedLearner {
  /** Whether an adapter has forgotten what is asked. */
  lost: (n: number) => boolean = () => false
  readonly asked: { question: string; adapter: string | null; temperature: number }[] = []
  /** Limits of sampled answers. */
  readonly limits = new Set<number>()

  override async evaluate(request: EvaluateRequest): Promise<Evaluation> {
    const { adapter, sampling } = request
    if (!request.limits) this.limits.add(sampling.maxTokens)
    const texts = request.prompts.map((prompt) => {
      const question = String.fromCharCode(...prompt)
      this.asked.push({ question, adapter, temperature: sampling.temperature })
      const n = Number(question.slice(1))
      const wrong = n % 2 === 0 || (n % 5 === 0 && sampling.temperature > 0) || (adapter !== null && this.lost(n))
      return wrong ? 'no' : `a${n}`
    })
    const evaluation = await super.evaluate(request)
    return { ...evaluation, completions: texts.map((text) => ({ ids: [1, 2], text, reason: 'stop' })) }
  }
}

const probe = (n: number): Probe => ({
  id: `id${n}`,
  kind: 'facts',
  messages: [{ role: 'user', content: `q${n}` }],
  maxTokens: 24,
  check: (answer) => answer === `a${n}`,
})
const setOf = (count: number): ProbeSet => ({
  probes: Array.from({ length: count }, (_, i) => probe(i + 1)),
  prompts: [[{ role: 'user', content: 'Tell me of the sea.' }], [{ role: 'user', content: 'Why?' }]],
  own: 0,
})
/** Of 200 probes 100 are answered correctly, 80 of them stably. */
const KEPT = Array.from({ length: 200 }, (_, i) => i + 1).filter((n) => n % 2 === 1 && n % 5 !== 0)

const recordsOf = async (log: MemoryLog): Promise<Event[]> => {
  const found: Event[] = []
  for (const topic of TOPICS)
    for await (const batch of log.read(topic)) for (const record of batch) found.push(decodeRecord(record).event)
  return found
}

type Verdict = { accepted: boolean; reason: string | null; figures: Record<string, number> }
type Life = {
  learner: Answers
  said: string[]
  publisher: Publisher
  verdict(): Promise<Verdict>
  stop(): Promise<void>
}

let turns = 0

/** Trainer and publisher from their start until the line has started. */
const live = async (log: MemoryLog, probes: ProbeSet, settings: PublisherSettings = {}): Promise<Life> => {
  let clock = 1_700_000_000_000 + turns * 1_000
  const now = (): number => clock++
  const learner = new Answers()
  const said: string[] = []
  const fatal = Promise.withResolvers<never>()
  fatal.promise.catch(() => undefined)
  const ports = { log, learner, model, now, onFatal: fatal.reject }
  let settle: (verdict: Verdict) => void = () => undefined
  const trainer = createTrainer(ports, trainerConfig.parse({ batchSize: 2 }))
  const publisher = createPublisher(
    {
      ...ports,
      evaluator: learner,
      probes,
      logLine: (line) => said.push(line),
      onProgress: ({ phase, reason, figures }) => settle({ accepted: phase === 'published', reason, figures }),
    },
    publisherConfig.parse({
      ...settings,
      thresholds: { klParent: 0.45, klBase: 1 },
      battery: { seconds: 1e6, ...settings.battery },
    }),
  )
  const started = Promise.withResolvers<void>()
  const watch = await log.subscribe({
    topics: ['weights'],
    group: 'watch',
    from: 'start',
    handle: async () => started.resolve(),
  })
  await Promise.all([trainer.start(), publisher.start()])
  await Promise.race([started.promise, fatal.promise])
  await watch.stop()
  return {
    learner,
    said,
    publisher,
    async verdict() {
      const settled = new Promise<Verdict>((resolve) => {
        settle = resolve
      })
      for (const reward of [1, -1] as const) {
        const session = `s${turns++}`
        const turn = captured({
          session,
          messages: [{ role: 'user', content: 'q' }],
          answer: 'a',
          at: now(),
          version: 0,
        })
        const ids = { prompt: { from: null, prefix: 0, ids: [1], length: 1 }, ids: [1], logprobs: [-1] }
        await log.append([encodeEvent({ ...turn, ...ids, adapter: null })])
        await log.append([
          encodeEvent({
            type: 'TurnScored',
            reward,
            judge: 'j',
            hint: null,
            hintJudge: null,
            turn: turn.turn,
            session,
            policy: 'policy',
            version: 0,
            subject: 'u',
            verdicts: [],
            cause: turn.turn,
            rank: null,
            at: now(),
          }),
        ])
      }
      return Promise.race([settled, fatal.promise])
    },
    async stop() {
      await trainer.stop()
      await publisher.stop()
    },
  }
}

const startedOf = async (log: MemoryLog): Promise<Record<string, number>> => {
  const event = (await recordsOf(log)).find((one) => one.type === 'LineStarted')
  assert.ok(event?.type === 'LineStarted')
  return event.settings
}
const keptIn = (settings: Record<string, number>): string[] =>
  Object.keys(settings).filter((key) => key.startsWith('probe '))

describe('the probes of a line', () => {
  test('are those that the base answers correctly, greedy and sampled, and stand in the first record', async () => {
    const log = openMemoryLog()
    const life = await live(log, setOf(200))
    await life.stop()
    const settings = await startedOf(log)
    assert.deepEqual(keptIn(settings).toSorted(), KEPT.map((n) => `probe id${n}`).toSorted())
    const { probes_asked, probes_right, probes_kept, probes_again, probes_again_failed, content } = settings
    assert.deepEqual(
      [probes_asked, probes_right, probes_kept, probes_again, probes_again_failed, content],
      [200, 100, 80, 160, 0, 1],
    )
    assert.deepEqual([settings.length_fixed, settings.entropy_fixed], [2, 1])
    assert.deepEqual(life.said, [
      'the gate asks the base its probes: 64 of 200 asked, 26 kept',
      'the gate asks the base its probes: 128 of 200 asked, 51 kept',
      'the gate asks the base its probes: 192 of 200 asked, 77 kept',
      'the gate asks the base its probes: 200 of 200 asked, 80 kept',
    ])
  })

  test('no more are asked once enough are kept or the time is over, and none that does not fit the context', async () => {
    const [most, time, long] = [openMemoryLog(), openMemoryLog(), openMemoryLog()]
    await (await live(most, setOf(200), { battery: { kept: 30 } })).stop()
    const atMost = await startedOf(most)
    assert.deepEqual([atMost.probes_asked, keptIn(atMost).length], [128, 30])
    await (await live(time, setOf(200), { battery: { seconds: 0.0015 } })).stop()
    assert.equal((await startedOf(time)).probes_asked, 64)
    const set = setOf(3)
    const fits = { ...set, probes: set.probes.map((one, i) => ({ ...one, maxTokens: i === 0 ? 24 : 511 })) }
    await (await live(long, fits)).stop()
    assert.equal((await startedOf(long)).probes_asked, 1)
  })

  test('a candidate that has lost them is rejected, within the same limits that accept one without probes', async () => {
    const [without, line] = [openMemoryLog(), openMemoryLog()]
    const blind = await live(without, NO_PROBES)
    blind.learner.kl = 0.45
    blind.learner.lost = () => true
    assert.equal((await blind.verdict()).accepted, true, 'the gate without a battery')
    await blind.stop()

    const life = await live(line, setOf(200))
    life.learner.kl = 0.45
    life.learner.lost = (n) => KEPT.indexOf(n) >= 0 && KEPT.indexOf(n) < 7
    const lost = await life.verdict()
    assert.deepEqual([lost.accepted, lost.reason], [false, 'content'])
    assert.deepEqual([lost.figures.falls, lost.figures.falls_limit, lost.figures.content], [7, 7, 1 - 7 / 80])
    life.learner.lost = (n) => KEPT.indexOf(n) >= 0 && KEPT.indexOf(n) < 6
    assert.equal((await life.verdict()).accepted, true, 'one fall fewer')
    await life.stop()
  })

  test('a verdict asks each kept probe once, of the candidate alone, and generates a bounded number of tokens', async () => {
    const log = openMemoryLog()
    const life = await live(log, setOf(200))
    life.learner.asked.length = 0
    const { figures } = await life.verdict()
    const greedy = life.learner.asked.filter(({ temperature }) => temperature === 0)
    assert.deepEqual(greedy.map(({ question }) => question).toSorted(), KEPT.map((n) => `q${n}`).toSorted())
    assert.equal(new Set(life.learner.asked.map(({ adapter }) => adapter)).size, 1, 'neither the head nor the base')
    assert.notEqual(life.learner.asked[0]!.adapter, null)
    // 80 probes, 2 fixed prompts and the 2 turns of the batch, 2 tokens each.
    assert.equal(figures.tokens, (80 + 2 + 2) * 2)
    await life.stop()
    const config = publisherConfig.parse({ samples: 32, maxTokens: 48 })
    assert.equal(mostTokens(config, KEPT.map(probe)), 80 * 24 + 32 * 48)
  })

  test('a restart asks the base nothing, and uses the recorded ones although the files have changed', async () => {
    const log = openMemoryLog()
    await (await live(log, setOf(200))).stop()
    const set = setOf(300)
    const life = await live(log, { ...set, probes: set.probes.filter(({ id }) => id !== 'id1') })
    assert.deepEqual(life.learner.asked, [])
    assert.deepEqual(life.said, [])
    const { figures } = await life.verdict()
    assert.equal(life.learner.asked.filter(({ temperature }) => temperature === 0).length, 79)
    assert.equal(figures.content, 1)
    await life.stop()
  })

  test('a line is measured with the limits of its base, whatever the settings have become', async () => {
    const log = openMemoryLog()
    await (await live(log, setOf(200), { maxTokens: 16 })).stop()
    const life = await live(log, setOf(200), { maxTokens: 256, fixedSamples: 1 })
    assert.match(
      life.said.at(-1)!,
      /^WARNING: the gate measures this line .* gate.maxTokens 16 and gate.fixedSamples 32:/,
    )
    const { figures } = await life.verdict()
    assert.deepEqual([...life.learner.limits], [16])
    assert.equal(figures.tokens, (80 + 2 + 2) * 2, 'both fixed prompts')
    await life.stop()
    const verdict = (await recordsOf(log)).find((one) => one.type === 'VersionPublished')
    assert.ok(verdict?.type === 'VersionPublished')
    assert.deepEqual([verdict.limits?.['maxTokens'], verdict.limits?.['fixedSamples']], [16, 32])
  })

  test('too few are said at the start and at every restart', async () => {
    const log = openMemoryLog()
    const life = await live(log, setOf(20))
    await life.stop()
    assert.match(life.said.at(-1)!, /^WARNING: the gate has 8 probes, fewer than 32: .*the base answered 10 of 20/)
    const again = await live(log, setOf(1))
    await again.stop()
    assert.match(again.said.at(-1)!, /^WARNING: the gate has 1 probe,.*7 kept ones are no longer there/)
  })
})
