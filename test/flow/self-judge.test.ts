/** `instar up` with the base weights as judge: who judged, what is on the log, and the same judge from the command line. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ask } from '../kit/people.ts'
import { instar } from '../kit/cli.ts'
import { dataFolder, sql, up, type Up } from './process.ts'

describe('the base weights as judge', { timeout: 280_000 }, () => {
  const data = dataFolder()
  const env = { INSTAR_JUDGE: 'self', INSTAR_SETTINGS: '{"judge": {"self": {"maxTokens": 300}}}' }
  let place: Up
  before(async () => {
    place = await up(data, env)
  })
  after(() => place.stop())

  const where = () => ({ data, url: place.ready.url })
  const done = async (): Promise<number> =>
    Number(
      /^instar_judgements_total\{outcome="done"\} (\d+)$/m.exec(
        await (await fetch(`${place.ready.url}/metrics`)).text(),
      )?.[1] ?? 0,
    )

  test('three votes of version 0 judge a turn; the log has the two turns of the person and the verdict', async () => {
    match(place.said(), /The scorer is judging with the base weights of the served model/)
    const question = { role: 'user' as const, content: 'What is 7 plus 6?' }
    const first = await ask(place.client, [question], { session: 'talk' })
    await ask(
      place.client,
      [question, { role: 'assistant', content: first.text }, { role: 'user', content: 'Thank you, that is right.' }],
      { session: 'talk' },
    )
    for (const until = Date.now() + 100_000; (await done()) < 3; await pause(200))
      ok(Date.now() < until, `not judged: ${place.said()}`)
    const scored = () => sql<{ verdicts: { judge: string; note: string }[] }>(where(), 'select verdicts from scores')
    for (const until = Date.now() + 60_000; (await scored()).length === 0; await pause(200))
      ok(Date.now() < until, 'no verdict on the log')
    const [{ verdicts }] = (await scored()) as [{ verdicts: { judge: string; note: string }[] }]
    match(verdicts[0]!.judge, /^self-[0-9a-f]{12}$/)
    match(verdicts[0]!.note, /^(good|bad|unclear)( (good|bad|unclear)){2}$/)
    const [turns] = await sql<{ count: number }>(where(), 'select count(*)::int from turns')
    equal(turns?.count, 2)
  })

  test('`instar judge --judge self` asks the gateway that runs', async () => {
    const before = await done()
    const said = await instar(
      ['judge', '--json', '--judge', 'self'],
      { ...env, INSTAR_DATA: data, INSTAR_PORT: new URL(place.ready.url).port },
      '/',
      `${JSON.stringify({ request: 'a', answer: 'b', next: { user: 'Thanks!' } })}\n`,
    )
    equal(said.code, 0, said.err)
    match((said.json as { judge: string }).judge, /^self-[0-9a-f]{12}$/)
    deepEqual((await done()) - before, 3)
  })
})

test(
  'with INSTAR_JUDGE=auto the first start of a line measures the base, and a later one reads the outcome',
  { timeout: 280_000 },
  async () => {
    const data = dataFolder()
    const env = { INSTAR_JUDGE: 'auto', INSTAR_SETTINGS: '{"judge": {"self": {"votes": 1}}}' }
    const said =
      /The reactions judge judges turns on this line: the base weights are (not better|too slow) \(\d+ of 24 /
    const first = await up(data, env)
    for (const until = Date.now() + 100_000; !said.test(first.said()); await pause(100))
      ok(Date.now() < until, first.said())
    const turns = await sql<{ count: number }>({ data, url: first.ready.url }, 'select count(*)::int from turns')
    equal(turns[0]?.count, 0)
    await first.stop()
    const second = await up(data, env)
    equal(await second.stop(), 0)
    ok(!said.test(second.said()), second.said())
  },
)
