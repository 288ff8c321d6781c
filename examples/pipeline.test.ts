/** Episodes of an example through the whole pipeline, on the model that ships. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import OpenAI from 'openai'
import { decodeRecord, type BatchSealed, type Event } from '@instar/events'
import { startPipeline } from '../cli/src/pipeline.ts'
import { runEpisode } from './example.ts'
import { toolCall } from './tool-call/example.ts'

const BATCH = 8

test('the episodes of a task are one batch with outcome, own score and reward; an aborted one is in none', async () => {
  const data = mkdtempSync(join(tmpdir(), 'instar-example-test-'))
  const pipeline = await startPipeline(
    {
      data,
      model: 'models/tiny',
      engine: 'auto',
      database: false,
      gateway: { port: 0, logLevel: 'silent' },
      scorer: {},
      trainer: { batchSize: BATCH, step: { epochs: 1 } },
      publisher: {},
    },
    {
      logLine: () => undefined,
      onFatal: (error) => {
        throw error
      },
    },
  )
  try {
    const { url } = pipeline
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
    const eventsOf = async (topic: 'turns' | 'updates'): Promise<Event[]> => {
      const events: Event[] = []
      for await (const records of pipeline.log.read(topic))
        for (const record of records) events.push(decodeRecord(record).event)
      return events
    }
    const batches = async (): Promise<BatchSealed[]> =>
      (await eventsOf('updates')).filter((event) => event.type === 'BatchSealed')

    // An aborted episode of the same task, with as many turns as a batch has.
    const task = toolCall.tasks(1, 1)[0]!
    for (let i = 0; i < BATCH; i += 1)
      await client.chat.completions.create(
        { model: 'policy', messages: [{ role: 'user', content: `${task.ask} ${i}` }], max_tokens: 8 },
        { headers: { 'x-session-id': 'aborted', 'x-instar-task-id': task.id } },
      )
    const closed = await fetch(`${url}/v1/sessions/aborted/close`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ discarded: true }),
    })
    equal(closed.status, 200)
    await pipeline.settled()
    deepEqual(await batches(), [])

    const rewards = new Map<string, number>()
    for (const [at, one] of toolCall.tasks(2, 8).entries()) {
      for (let i = 0; i < 4; i += 1) {
        const session = `episode-${at}-${i}`
        const { reward } = await runEpisode(one, { client, url, session, model: 'policy', learn: true })
        rewards.set(session, reward)
      }
      await pipeline.settled()
      if ((await batches()).length > 0) break
    }
    const [batch] = await batches()
    ok(batch, 'a batch was sealed')
    ok(batch.items.length >= BATCH)
    const turns = (await eventsOf('turns')).filter((event) => event.type === 'TurnCaptured')
    const sessions = new Set(batch.items.map(({ session }) => session))
    for (const { session, outcome, turnScore, reward, closing } of batch.items) {
      equal(outcome, rewards.get(session), session)
      equal(reward, outcome! + 0.5 * (turnScore ?? 0))
      ok(closing)
    }
    for (const session of sessions)
      equal(
        batch.items.filter((item) => item.session === session).length,
        turns.filter((turn) => turn.session === session && turn.trainable).length,
        'an episode is whole',
      )
    const tasks = Map.groupBy(sessions, (session) => /-(\d+)-/.exec(session)![1])
    deepEqual(new Set([...tasks.values()].map(({ length }) => length)), new Set([4]), 'four episodes of each task')
  } finally {
    await pipeline.stop()
    rmSync(data, { recursive: true, force: true })
  }
})
