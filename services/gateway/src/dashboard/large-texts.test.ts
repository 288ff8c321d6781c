/** Large texts in the dashboard: the places in which they are read, and the memory that their requests are charged. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { openMemoryLog } from '@instar/log'
import type { ReadModel } from '@instar/projections/read-model'
import { startRig, turnsOf, USER } from '../../../../test/kit/gateway.ts'
import { heldLog } from '../../../../test/kit/held-log.ts'
import { MOST_READINGS } from '../session/paced.ts'

const KIB = 1 << 10
const hash = (token: string): string => createHash('sha256').update(token).digest('hex')
const LEARNED = {
  reward: -0.5,
  turn_score: null,
  outcome: null,
  advantage: -0.75,
  hint: null,
  parent_version: 0,
  loss: 'hybrid',
  settings: { tisCap: 2, sequenceMask: 3, opdWeight: 0.5, klWeight: 0.1, klFullAtAdvantage: 1, weightShare: 0 },
}

/** A gateway with one turn of 300 KiB; its log gives no record from `hold` until `release`. */
const start = async (t: TestContext, bodiesLimit: number) => {
  const log = openMemoryLog()
  const held = heldLog(log)
  const keys = ['talks', 'anna', 'bob', 'cleo'].map((id) => ({
    id,
    sha256: hash(id),
    scopes: [id === 'talks' ? ('inference' as const) : ('read' as const)],
  }))
  const readModel = { learnedFrom: async () => LEARNED, close: async () => undefined } as unknown as ReadModel
  const rig = await startRig({
    log: held.log,
    settings: { keys, bodyLimit: 400 * KIB, bodiesLimit, recentRecordBytes: 0 },
    ports: { readModel },
  })
  t.after(() => rig.stop())
  const headers = (id: string) => ({ authorization: `Bearer ${id}` })
  const said = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hello')], metadata: { filler: 'x'.repeat(300 * KIB) } },
    headers: headers('talks'),
  })
  assert.equal(said.status, 200, await said.text())
  const [turn] = await turnsOf(log)
  return {
    ask: (id: string, what: string) => rig.fetch(`/v1/dashboard/turns/${turn!.turn}/${what}`, { headers: headers(id) }),
    hold: held.hold,
    release: held.release,
    engine: rig.engine,
  }
}

const codeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { error?: { code: string } }).error?.code ?? ''

test(
  'what is read is charged three times its body until it is sent; where there is no room it is refused',
  { timeout: 60_000 },
  async (t) => {
    const { ask, engine } = await start(t, 1700 * KIB)
    const score = engine.score.bind(engine)
    const scored = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    engine.score = (async (...args: Parameters<typeof score>) => {
      begun.resolve()
      await scored.promise
      return score(...args)
    }) as never
    const learned = ask('anna', 'learned')
    await begun.promise
    for (const what of ['text', 'learned']) {
      const response = await ask('anna', what)
      assert.deepEqual([response.status, await codeOf(response)], [429, 'overloaded'], what)
    }
    scored.resolve()
    assert.equal((await learned).status, 200)
    for (const what of ['text', 'learned']) assert.equal((await ask('anna', what)).status, 200, `${what}, alone`)
  },
)

test(
  'a reader takes at most half of the places of the dashboard, and what was learned is read in one',
  { timeout: 60_000 },
  async (t) => {
    const { ask, hold, release } = await start(t, 1 << 28)
    hold()
    const most = MOST_READINGS / 4
    const asked = Array.from({ length: most + 1 }, (_, n) => ask('anna', n % 2 === 0 ? 'text' : 'learned'))
    const first = await Promise.race(asked)
    assert.deepEqual([first.status, await codeOf(first)], [429, 'overloaded'])
    const others = ask('bob', 'text')
    release()
    const statuses = await Promise.all(asked.map(async (one) => (await one).status))
    assert.deepEqual(
      statuses.filter((status) => status !== 200),
      [429],
    )
    assert.equal((await others).status, 200)
  },
)
