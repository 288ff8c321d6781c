/** Gateways on Kafka that leave turns to gather: what a request needs is read when it asks. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Publisher, startRig, turnThat, USER, type Rig } from '../kit/gateway.ts'
import { kafkaLogs } from '../kit/kafka-logs.ts'

/** Longer than the test. */
const MS = 600_000

type Message = { role: string; content: string }
type Answer = { said: Message[]; session: string | null; turn: string | null }

const ask = async (rig: Rig, messages: Message[]): Promise<Answer> => {
  const response = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages } })
  assert.equal(response.status, 200)
  const { choices } = (await response.json()) as { choices: { message: Message }[] }
  return {
    said: [...messages, choices[0]!.message],
    session: response.headers.get('x-instar-session-id'),
    turn: response.headers.get('x-instar-turn-id'),
  }
}

const sessionsOf = async (rig: Rig): Promise<number> => {
  const { index } = (await (await rig.fetch('/admin/status')).json()) as { index: { sessions: number } }
  return index.sessions
}

/** Resolves when the gateway has read so many sessions. */
const knows = async (rig: Rig, sessions: number): Promise<void> => {
  while ((await sessionsOf(rig)) < sessions);
}

test(
  'a gateway that reads turns late continues what another one answered just before, takes its feedback, and joins a retry of what was cut',
  { timeout: 120_000 },
  async () => {
    const { open, close } = await kafkaLogs('gg')
    let answers = 0
    const cut = new AbortController()
    const leaving = async (gone: AbortSignal): Promise<void> => {
      const noticed = once(gone, 'abort')
      cut.abort()
      await noticed
    }
    const rigs: Rig[] = []
    const startGateway = async (clientId: string): Promise<Rig> => {
      const rig = await startRig({
        log: await open(clientId),
        script: (_, prompt) => {
          const text = `This is answer number ${(answers += 1)}.`
          if (!prompt.includes('cut') || answers > 5) return text
          return { text, before: (token, gone) => (token === 4 ? leaving(gone!) : undefined) }
        },
        settings: { tailWaitMs: 60_000, appendPatienceMs: 20_000, gatherMs: MS },
      })
      rigs.push(rig)
      return rig
    }
    try {
      const watcher = await open('watcher')
      await new Publisher(watcher).start()
      const one = await startGateway('gateway-1')
      const other = await startGateway('gateway-2')
      // A fetch that waits for a first record has it at once; from then on turns gather.
      await ask(one, [USER('What is 1 plus 1?')])
      await Promise.all([knows(one, 1), knows(other, 1)])

      const first = await ask(one, [USER('What is 2 plus 2?')])
      assert.deepEqual([await sessionsOf(one), await sessionsOf(other)], [1, 1], 'nobody needs it yet')
      const second = await ask(other, [...first.said, USER('And plus 3?')])
      assert.equal(second.session, first.session)
      const third = await ask(one, [...second.said, USER('And plus 4?')])
      assert.equal(third.session, first.session)

      const named = await other.fetch('/v1/feedback', { json: { turn_id: third.turn, value: true } })
      assert.equal(named.status, 200, await named.text())

      const asked = { model: 'policy', messages: [USER('This will be cut.')], stream: true }
      await one
        .fetch('/v1/chat/completions', { json: asked, signal: cut.signal })
        .then((response) => response.text())
        .catch(() => undefined)
      const aborted = await turnThat(watcher, ({ type }) => type === 'TurnAborted')
      await knows(one, 3)
      const retried = await ask(one, [USER('This will be cut.')])
      assert.equal(retried.session, aborted.session)
    } finally {
      for (const rig of rigs) await rig.stop()
      await close()
    }
  },
)
