/** The lineage as a drawing: branches of replays in it, and its versions read and opened by keyboard. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { number, reward } from '../../packages/dashboard/web/format.ts'
import { assertAccessible } from './browser.ts'
import { answerTo, answerWith, branched, cli, converse, published, until } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage

const command = async (name: string, body: object): Promise<void> => {
  const response = await fetch(`${on.url()}/admin/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await on.adminToken()}` },
    body: JSON.stringify(body),
  })
  assert.ok(response.ok, `${name} ${response.status}`)
}

const chart = (): Locator => on.page.getByRole('region', { name: 'Lineage of the versions' })
const said = async (): Promise<string> => (await on.page.locator('figure.lineage .said').textContent()) ?? ''

before(async () => {
  on = await stage()
  await converse(on.post, 'ann')
  await published(on.url())
  await command('freeze', { why: 'A test', who: 'Eve' })
  await cli(on.env(), 'replay', '--branch', 'other', '--set', 'lr=0.001', '--json')
  await branched(on.url(), 'other')
})
after(() => on?.close())

test('a branch of a replay is drawn from the version from which it starts, with its name and what became of it', async () => {
  await on.open('/versions')
  const branch = chart().locator('g.branch')
  await branch.waitFor()
  assert.equal(await branch.count(), 1)
  assert.equal(await branch.locator('.branch-name').textContent(), 'other: not promoted')
  assert.equal(await branch.locator('.node-label').textContent(), '1')
  const circle = chart().locator('a[href="#/versions/0"] circle')
  const from = [await circle.getAttribute('cx'), await circle.getAttribute('cy')].join(' ')
  assert.ok((await branch.locator('path.edge').first().getAttribute('d'))!.startsWith(`M${from}C`), 'from version 0')
  assert.match((await on.page.locator('figure.lineage figcaption').textContent())!, /the branch of a replay/)
  const row = on.page.getByRole('region', { name: 'Branches' }).locator('tbody tr')
  assert.deepEqual((await row.locator('td').allTextContents()).slice(0, 3), ['other', '0', '1'])
  await assertAccessible(on.page, 'a branch')
})

test('the lineage is one tab stop: arrow keys read versions, rewards and events, and Enter opens one', async () => {
  const { page } = on
  await command('rollback', { version: 0, why: 'It was worse', who: 'Eve' })
  type Row = { version: number; status: string; reward: number | null }
  await until<{ versions: Row[] }>(on.url(), 'versions', ({ versions }) =>
    versions.some(({ version, status }) => version === 1 && status === 'rolled_back'),
  )
  await on.open('/versions')
  await page.reload()
  await chart().locator('path.move').first().waitFor()
  assert.equal(
    await page.locator('figure.lineage').locator('[tabindex="0"], a:not([tabindex="-1"]), button').count(),
    1,
  )
  await chart().focus()
  assert.equal(await said(), '')
  const { versions } = (await (await fetch(`${on.url()}/v1/dashboard/versions`)).json()) as { versions: Row[] }
  const rewards = Object.fromEntries(versions.map((row) => [row.version, reward(row.reward)]))
  assert.match(rewards[0]!, /\d/)
  const base = `Version 0: answers requests now; reward ${rewards[0]}`
  await page.keyboard.press('ArrowRight')
  assert.equal(await said(), base, 'the head comes first')
  await page.keyboard.press('ArrowLeft')
  assert.equal(await said(), base, 'there is none before it')
  await page.keyboard.press('ArrowRight')
  const one = await said()
  assert.match(one, /^Version 1: left behind by a rollback; (no reward yet|reward [−+]?\d\.\d\d); from version 0; /)
  assert.match(one, /Eve \(admin token\) moved the head from version 1 to 0: It was worse/)
  assert.match(one, /Eve \(admin token\) froze learning: A test/)
  assert.equal(await chart().locator('.chosen').count(), 1)
  await page.keyboard.press('End')
  assert.equal(await said(), `Branch other: not promoted; ${number(1, 0)} version from version 0`)
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Compare', exact: true }).waitFor()
  assert.equal(await page.getByLabel('One answer by').inputValue(), 'branch:other')
  await on.open('/versions')
  await chart().locator('g.branch').waitFor()
  await chart().focus()
  await page.keyboard.press('Home')
  await page.keyboard.press('ArrowRight')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'Version 1', exact: true }).waitFor()
})

test('older versions, older events and further turns of a batch are read when asked for', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  type Rows = Record<'versions' | 'updates' | 'moves' | 'freezes' | 'refusals', object[]>
  const whole = (await (await fetch(`${on.url()}/v1/dashboard/versions`)).json()) as Rows & { versions: Row[] }
  type Row = { version: number }
  const until = new Date().toISOString()
  const asked: string[] = []
  // As a line of more versions than one answer has.
  await page.route(/\/v1\/dashboard\/versions(\?.*)?$/, async (route) => {
    const { search } = new URL(route.request().url())
    if (search === '') {
      const [newest] = whole.versions
      return route.fulfill({ json: { ...whole, versions: [newest], moves: [], freezes: [], next: until } })
    }
    asked.push(decodeURIComponent(search))
    return route.fulfill({ json: { ...whole, updates: [], next: null } })
  })
  await on.open('/versions')
  await page.reload()
  const rows = page.getByRole('region', { name: 'Versions', exact: true }).locator('tbody tr')
  await page.getByText('The newest 1 of 2 versions.').waitFor()
  assert.equal(await rows.count(), 1)
  const history = page.locator('ol.plain li')
  const events = await history.count()
  await page.getByRole('button', { name: 'Older versions and events' }).click()
  await rows.nth(1).waitFor()
  assert.deepEqual([await rows.count(), asked], [2, [`?until=${until}`]])
  await page.getByText('moved the head from version').first().waitFor()
  assert.ok((await history.count()) > events)
  assert.equal(await page.getByRole('button', { name: /^Older/ }).count(), 0)

  await page.route(/\/v1\/dashboard\/versions\/1(\/turns\?after=200)?$/, async (route) => {
    if (route.request().url().endsWith('after=200')) {
      const turn = { turn_id: 's.further', used: false, reason: 'stale', version: 0 }
      return route.fulfill({ json: { rows: [turn], next: null } })
    }
    const response = await answerTo(route)
    return answerWith(route, response, { ...((await response.json()) as object), next: 200 })
  })
  await on.open('/versions/1')
  const turns = page.getByRole('region', { name: 'Turns of the batch' }).locator('tbody tr')
  await turns.first().waitFor()
  const first = await turns.count()
  await page.getByText(`The first ${first} turns of the batch.`).waitFor()
  await page.getByRole('button', { name: 'Further turns of the batch' }).click()
  await turns.nth(first).waitFor()
  assert.match((await turns.last().textContent())!, /The model has moved on since it was sampled/)
  assert.equal(await page.getByRole('button', { name: 'Further turns of the batch' }).count(), 0)
  await assertAccessible(page, 'a batch')
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
