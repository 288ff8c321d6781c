/** How far services of other processes have read the log, as the gateway tells it from what they commit to Kafka. */
import { createScorer, scorerConfig } from '@instar/scorer'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Publisher, startRig, USER } from '../kit/gateway.ts'
import { kafkaLogs } from '../kit/kafka-logs.ts'

type Lags = Record<'gateway' | 'scorer' | 'trainer' | 'publisher', number | null>

test(
  'a scorer that reads is up to date at any gateway, one that has stopped falls behind, and what never ran is unknown',
  { timeout: 120_000 },
  async (t) => {
    const { open, close } = await kafkaLogs('l')
    t.after(close)
    const publisher = new Publisher(await open('publisher'))
    await publisher.start()
    const rig = await startRig({ log: await open('gateway'), script: () => 'Yes.', settings: { tailWaitMs: 10_000 } })
    t.after(() => rig.stop())
    const onFatal = (error: Error): never => {
      throw error
    }
    const scorer = createScorer({ log: await open('scorer'), now: Date.now, onFatal }, scorerConfig.parse({}))
    await scorer.start()
    const say = async (): Promise<void> => {
      await rig.client.chat.completions.create({ model: 'policy', messages: [USER('Is it so?')] })
    }
    const until = async (holds: (lag: Lags) => boolean): Promise<Lags> => {
      for (;;) {
        const { lag } = (await (await rig.fetch('/v1/dashboard/now')).json()) as { lag: Lags }
        if (holds(lag)) return lag
      }
    }
    await say()
    const { trainer } = await until(({ scorer: lag }) => lag === 0)
    assert.equal(trainer, null, 'no trainer has ever committed')
    await scorer.stop()
    await say()
    await until(({ scorer: lag }) => lag !== null && lag > 15)
    // Whoever follows commits for the same group.
    const next = createScorer({ log: await open('scorer-2'), now: Date.now, onFatal }, scorerConfig.parse({}))
    await next.start()
    t.after(() => next.stop())
    await until(({ scorer: lag }) => lag === 0)
  },
)
