/** Now, Learning and Versions, where people have acted whose names and reasons are hostile. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessible, HOSTILE } from './browser.ts'
import { converse } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage

/** An admin command in the name of a person. */
const command = async (name: string, body: object, who: string): Promise<void> => {
  const token = await on.adminToken()
  const response = await fetch(`${on.url()}/admin/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}`, 'x-instar-who': who },
    body: JSON.stringify(body),
  })
  assert.ok(response.ok, `${name} ${response.status}`)
}

const read = async <T>(path: string): Promise<T> =>
  (await fetch(`${on.url()}/v1/dashboard/${path}`)).json() as Promise<T>

/** Asks until the read model has it. */
const until = async <T>(path: string, holds: (found: T) => boolean): Promise<void> => {
  while (!holds(await read<T>(path)));
}

before(async () => {
  on = await stage()
  await converse(on.post, HOSTILE.slice(0, 100))
  await until<{ last_version: number }>('now', (now) => now.last_version > 0)
  await command('freeze', { why: `Look ${HOSTILE}` }, `Eve ${HOSTILE}`)
  await command('rollback', { version: 0, why: `Worse ${HOSTILE}` }, `Eve ${HOSTILE}`)
  await command('thaw', { why: 'Seen' }, 'Eve')
  await until<{ freezes: unknown[]; moves: unknown[] }>(
    'lately',
    ({ freezes, moves }) => freezes.length >= 2 && moves.length >= 3,
  )
})
after(() => on?.close())

test('Now says what each service does, how far it is behind, and what the next batch needs', async () => {
  await on.open('/')
  const services = on.page.getByRole('region', { name: 'Services' })
  for (const service of ['Gateway', 'Scorer', 'Trainer', 'Publisher', 'Projections']) {
    const row = services.getByRole('row').filter({ hasText: service })
    await row.getByText(/up to date|behind/).waitFor()
    assert.doesNotMatch((await row.textContent()) ?? '', /unknown/, service)
  }
  await on.page.getByText(/The next batch still needs \d+ usable turns|There are enough turns/).waitFor()
  await on.page.getByText('records that cannot be read (dead letters)').waitFor()
  await assertAccessible(on.page, 'now')
})

test('Learning has who did what on its curves, and shows names and reasons as text', async () => {
  const { page } = on
  await on.open('/learning')
  const events = page.getByRole('region', { name: 'Events on the curves' })
  await events.getByText('moved the head from version').waitFor()
  const shown = (await events.textContent()) ?? ''
  for (const said of [`Eve ${HOSTILE}`, `“Worse ${HOSTILE}`.slice(0, 100), `“Look ${HOSTILE}`.slice(0, 100), '“Seen”'])
    assert.ok(shown.includes(said.slice(0, 60)), said)
  const chart = page.locator('figure.chart').filter({ hasText: 'Reward over time' })
  assert.match((await chart.locator('.legend').textContent()) ?? '', /head moved by a person.*learning frozen.*resumed/)
  const times = await chart.locator('svg[tabindex="0"]').count()
  assert.equal(times, 1)
  await chart.locator('svg[tabindex="0"]').focus()
  const heard: string[] = []
  await page.keyboard.press('Home')
  for (let n = 0; n < 130; n += 1) {
    heard.push((await chart.locator('.said').textContent()) ?? '')
    await page.keyboard.press('ArrowRight')
    if ((await chart.locator('.said').textContent()) === heard.at(-1)) break
  }
  assert.match(heard.join('\n'), /moved the head from version 1 to 0/, 'events are read with the values')
  for (const title of ['Rewards over time', 'Judges over time', 'Without a score over time', 'Dropped over time'])
    await page.locator('figure.chart').filter({ hasText: title }).first().waitFor()
  await page.getByRole('region', { name: 'People' }).locator('tbody tr').nth(2).waitFor()
  await page.getByRole('region', { name: 'API keys' }).getByText('without a key').waitFor()
  await assertAccessible(page, 'learning')
  assert.deepEqual([await page.title(), await page.locator('main img').count()], ['Instar', 0])
})

test('a gateway that restarts under an open page is found again', async () => {
  await on.open('/')
  await on.page.getByText('Live', { exact: true }).waitFor()
  await on.stop()
  await on.page.getByText('Connection lost').waitFor()
  await on.again()
  await on.page.getByText('Live', { exact: true }).waitFor({ timeout: 60_000 })
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
