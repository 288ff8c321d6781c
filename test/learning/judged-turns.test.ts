/** A model as judge, behind HTTP, of more turns than updates take: what it is asked, and what is trained on. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { decodeRecord, encodeEvent, weightLine, type BatchSealed, type Event } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { createPublisher, NO_PROBES, publisherConfig } from '@instar/publisher'
import { createScorer, scorerConfig } from '@instar/scorer'
import { createTrainer, trainerConfig } from '@instar/trainer'
import { SCRIPTED_MODEL, ScriptedLearner } from '../kit/scripted-learner.ts'
import { thanked } from '../kit/slow-judge.ts'

const BATCH = 4
const VOTES = 3
/** Turns that arrive for each batch, and batches after the first one. */
const ARRIVE = 20
const ROUNDS = 10

/** An endpoint that finds every answer good, and counts. */
const endpoint = async (t: TestContext): Promise<{ url: string; asked: () => number }> => {
  let asked = 0
  const server = createServer((request, response) => {
    asked += 1
    request.resume()
    const content = JSON.stringify({ verdict: asked % 2 === 0 ? 'good' : 'bad', hint: '' })
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ choices: [{ message: { content } }] }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, asked: () => asked }
}

/** A gate whose measurements of candidates wait until the next `release`. */
class HeldGate extends ScriptedLearner {
  #go: (() => void) | null = null
  #asked = Promise.withResolvers<void>()
  override async evaluate(...args: Parameters<ScriptedLearner['evaluate']>): ReturnType<ScriptedLearner['evaluate']> {
    if (args[0].adapter !== null)
      await new Promise<void>((resolve) => {
        this.#go = resolve
        this.#asked.resolve()
      })
    return super.evaluate(...args)
  }
  measuring(): Promise<void> {
    return this.#asked.promise
  }
  release(): void {
    this.#asked = Promise.withResolvers<void>()
    this.#go?.()
    this.#go = null
  }
}

/** In each round turns of the serving version arrive while the gate measures; then it gives its verdict. */
const run = async (t: TestContext, waitingBatches: number) => {
  const { url, asked } = await endpoint(t)
  const log = openMemoryLog()
  const gate = new HeldGate()
  const fatal: Error[] = []
  const ports = { log, now: () => Date.now(), onFatal: (error: Error) => void fatal.push(error) }
  const model = SCRIPTED_MODEL
  const settings = { batchSize: BATCH, batchMax: BATCH, staleness: 4 }
  const judge = { llm: { url, votes: VOTES, failures: 0, agreement: 0 }, duplicates: 64, askedAlone: 64 }
  const scorer = createScorer(ports, scorerConfig.parse({ ...settings, ...judge, waitingBatches }))
  const trainer = createTrainer({ ...ports, learner: new ScriptedLearner(), model }, trainerConfig.parse(settings))
  const publisher = createPublisher({ ...ports, evaluator: gate, model, probes: NO_PROBES }, publisherConfig.parse({}))
  const say = async (from: number, version: number): Promise<void> => {
    const turns = Array.from({ length: ARRIVE }, (_, n) => thanked(from + n, version)).flat()
    await log.append(turns.map((turn) => encodeEvent(turn)))
  }
  /** The scorer has read this head, and every turn that is to be judged now is. */
  const quiet = async (head: number): Promise<void> => {
    for (;;) {
      const { promise, resolve } = Promise.withResolvers<void>()
      told = resolve
      if ((await scorer.settled()) && weightLine(scorer.state.weights, 'policy').head === head) return
      await promise
    }
  }
  let told = (): void => undefined
  const watch = await log.subscribe({
    topics: ['scores', 'weights'],
    group: 'watch',
    from: 'start',
    handle: () => told(),
  })
  await Promise.all([scorer.start(), trainer.start(), publisher.start()])
  for (let round = 0; round <= ROUNDS; round += 1) {
    await quiet(round)
    await say(ARRIVE * round, round)
    await gate.measuring()
    await quiet(round)
    if (round < ROUNDS) gate.release()
  }
  const events: Event[] = []
  for (const topic of ['scores', 'updates'] as const)
    for await (const records of log.read(topic)) events.push(...records.map((record) => decodeRecord(record).event))
  gate.release()
  await Promise.all([scorer.stop(), trainer.stop(), publisher.stop(), watch.stop()])
  await log.close()
  assert.deepEqual(fatal, [])
  const batches = events.filter((event): event is BatchSealed => event.type === 'BatchSealed')
  return { judged: asked() / VOTES, batches: batches.map(({ items }) => items.length) }
}

test('of twenty turns an update a model judges some more than are trained on, and as many are trained on as when it judges all', async (t) => {
  const without = await run(t, 0)
  const limited = await run(t, 2)
  const trained = BATCH * (ROUNDS + 1)
  const all = Array.from({ length: ROUNDS + 1 }, () => BATCH)
  assert.deepEqual([limited.batches, without.batches], [all, all])
  assert.equal(without.judged, ARRIVE * (ROUNDS + 1))
  // Until the first batch is sealed there is no limit.
  assert.ok(limited.judged <= ARRIVE + trained, `${limited.judged} turns were judged`)
})
