/** `instar import` on Kafka while the services run. */
import { decodeRecord, schemaTexts } from '@instar/events'
import { openKafkaLog } from '@instar/log/kafka/index'
import { createScorer, scorerConfig } from '@instar/scorer'
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { instar } from '../kit/cli.ts'
import { range } from '../kit/event-log/harness.ts'
import { startRig, turnsOf, USER } from '../kit/gateway.ts'
import { addresses, temporaryFolder } from '../kit/stack.ts'

const SESSIONS = 40

test(
  'turns that are imported under a running gateway and scorer are joined, scored and known to both; a second import adds nothing',
  { timeout: 180_000 },
  async (t) => {
    const { brokers, registry } = addresses()
    const folder = await temporaryFolder()
    t.after(() => folder.remove())
    const env = { INSTAR_LOG: `kafka://${brokers.join(',')}`, INSTAR_REGISTRY: registry, INSTAR_DATA: folder.path }
    const setup = await instar(['setup', '--json'], env)
    assert.equal(setup.code, 0, setup.err)
    const open = async (clientId: string) => {
      const log = await openKafkaLog({ brokers, clientId, registry, schemas: schemaTexts() })
      t.after(() => log.close())
      return log
    }
    const log = await open('watcher')
    const scored = new Map<string, number>()
    const all = Promise.withResolvers<void>()
    const watching = await log.subscribe({
      topics: ['scores'],
      group: `watch-${process.pid}`,
      from: 'start',
      handle(records) {
        for (const record of records) {
          const { event } = decodeRecord(record)
          if (event.type === 'TurnScored') scored.set(event.turn, event.reward)
        }
        if (scored.size >= SESSIONS) all.resolve()
      },
    })
    t.after(() => watching.stop())
    const scorer = createScorer(
      {
        log: await open('scorer'),
        now: Date.now,
        onFatal: (error) => {
          throw error
        },
      },
      scorerConfig.parse({}),
    )
    await scorer.start()
    t.after(() => scorer.stop())
    const rig = await startRig({
      log: await open('gateway'),
      script: () => 'And so on.',
      settings: { tailWaitMs: 20_000 },
    })
    t.after(() => rig.stop())

    const file = join(folder.path, 'lines.jsonl')
    writeFileSync(
      file,
      range(SESSIONS)
        .map(
          (i) =>
            `${JSON.stringify({ session_id: `old-${i}`, timestamp: 1_600_000_000 + i, reward: i / SESSIONS, messages: [USER(`Question ${i}?`), { role: 'assistant', content: `Answer ${i}.` }, USER('More'), { role: 'assistant', content: 'No.' }] })}\n`,
        )
        .join(''),
    )
    const first = await instar(['import', file, '--json'], env)
    assert.equal(first.code, 0, first.err)
    assert.deepEqual(
      [(first.json as { turns: number }).turns, (first.json as { feedback: number }).feedback],
      [2 * SESSIONS, SESSIONS],
    )
    await all.promise
    const turns = await turnsOf(log)
    assert.equal(turns.length, 2 * SESSIONS)
    for (const i of range(SESSIONS)) {
      const [one, two] = turns
        .filter(({ session }) => session === `old-${i}`)
        .map(({ turn }) => scorer.state.turns.turns.get(turn)!)
      assert.deepEqual([one!.next, two!.follows, scored.get(two!.turn)], [two!.turn, one!.turn, i / SESSIONS])
    }
    // The gateway continues an imported conversation without a label.
    const messages = [
      USER('Question 3?'),
      { role: 'assistant', content: 'Answer 3.' },
      USER('More'),
      { role: 'assistant', content: 'No.' },
      USER('Please!'),
    ]
    const response = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages } })
    assert.deepEqual([response.status, response.headers.get('x-instar-session-id')], [200, 'old-3'])

    const again = await instar(['import', file, '--json'], env)
    assert.deepEqual(
      [again.code, (again.json as { turns: number }).turns, (again.json as { there: number }).there],
      [0, 0, 2 * SESSIONS],
    )
  },
)
