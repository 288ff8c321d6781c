/** Now, Learning and Versions, where people have acted whose names and reasons are hostile. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessible, HOSTILE } from './browser.ts'
import { answerTo, answerWith, branched, cli, converse, published, until } from './rig.ts'
import { LOOKS } from './pages.ts'
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

before(async () => {
  on = await stage()
  await converse(on.post, HOSTILE.slice(0, 100))
  await published(on.url())
  await command('freeze', { why: `Look ${HOSTILE}` }, `Eve ${HOSTILE}`)
  await command('rollback', { version: 0, why: `Worse ${HOSTILE}` }, `Eve ${HOSTILE}`)
  await command('thaw', { why: 'Seen' }, 'Eve')
  await until<{ freezes: unknown[]; moves: unknown[] }>(
    on.url(),
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

test('Now says who gave the last score, in words', async () => {
  const asked = { role: 'user', content: 'What is 3 plus 5?' }
  const first = (await on.post('/v1/chat/completions', { model: 'policy', messages: [asked] })) as {
    choices: [{ message: object }]
  }
  const reaction = { role: 'user', content: 'That is wrong. Answer in plain text, without bold.' }
  await on.post('/v1/chat/completions', { model: 'policy', messages: [asked, first.choices[0].message, reaction] })
  await until<{ judge: string | null }>(on.url(), 'lately', ({ judge }) => judge?.startsWith('reactions-') === true)
  await on.open('/')
  await on.page.reload()
  const judge = on.page.locator('section.card').filter({ has: on.page.getByRole('heading', { name: 'Judge' }) })
  await judge.getByText('The last answer was scored by the reaction to it').waitFor()
  await on.page.route('**/v1/dashboard/lately', async (route) => {
    const response = await answerTo(route)
    const found = (await response.json()) as object
    await answerWith(route, response, { ...found, judge: `x\u202e${HOSTILE}` })
  })
  await on.page.reload()
  await judge.getByText('The last answer was scored by x\\u{202e}<img src=x').waitFor()
  assert.deepEqual([await on.page.title(), await on.page.locator('main img').count()], ['Instar', 0])
  await on.page.unrouteAll({ behavior: 'wait' })
})

test('names of branches that hold markup, turn the direction of writing or are long are plain on Versions and Compare', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  const names = [HOSTILE, 'better\u202e.reven', `${'long'.repeat(500)}`, 'two\nlines', '\u2066isolated\u2069\u200bname']
  await page.route('**/v1/dashboard/versions', async (route) => {
    const response = await answerTo(route)
    const found = (await response.json()) as { branches: object[]; moves: object[] }
    const published_at = new Date(0).toISOString()
    const branches = names.map((name) => ({ name, version: 1, published_at, figures: null, promoted: false }))
    const refusals = names.map((branch) => ({
      reason: 'content',
      parent: 0,
      asked_by: branch,
      asked_why: 'So',
      at: published_at,
      branch,
    }))
    await answerWith(route, response, { ...found, branches, refusals })
  })
  const check = async (name: string): Promise<void> => {
    const text = (await page.locator('main').textContent()) ?? ''
    // No character that has no shape reaches the page, and none of the long name but its beginning.
    assert.doesNotMatch(text, /[\p{Cf}]/u, name)
    assert.ok(!text.includes('long'.repeat(30)), name)
    assert.ok(text.includes('better\\u{202e}.reven') && text.includes('<img src=x onerror='), name)
    assert.deepEqual([await page.title(), await page.locator('main img, main script').count()], ['Instar', 0])
    assert.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth + 1'), `${name} is too wide`)
  }
  for (const viewport of [LOOKS.phone.viewport, LOOKS.light.viewport]) {
    await page.setViewportSize(viewport)
    await on.open('/versions')
    await page.reload()
    await page
      .locator('ol.plain li')
      .getByText('The gate rejected the promotion of two\\u{a}lines (it lost probes) for two\\u{a}lines')
      .first()
      .waitFor()
    await check('versions')
    await on.open('/compare')
    await page.reload()
    await page.getByLabel('One answer by').selectOption(`branch:${names[1]}`)
    await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
    await check('compare')
  }
  await assertAccessible(page, 'names')
})

test('a promotion that the gate rejects says why in words, and what still serves', async (t) => {
  const { page } = on
  await cli(on.env(), 'replay', '--branch', 'other', '--set', 'lr=0.001', '--json')
  await branched(on.url(), 'other')
  await on.signIn()
  // The gate lets this branch through; the answer is that to one which it rejects.
  const verdict = { accepted: false, reason: 'kl_parent', head: 0, version: 0, frozen: false }
  let asked: unknown = null
  await page.route('**/admin/promote', async (route) => {
    asked = route.request().postDataJSON()
    await route.fulfill({ contentType: 'application/x-ndjson', body: `{}\n${JSON.stringify(verdict)}\n` })
  })
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  await on.open('/versions')
  await page.reload()
  await page.getByRole('button', { name: 'Promote' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('Faster')
  await dialog.getByRole('button', { name: 'Promote other' }).click()
  const said = await dialog.getByRole('status').textContent()
  assert.equal(said, 'The gate rejected it: too far from its parent in one step. Version 0 still serves.')
  assert.deepEqual(asked, { branch: 'other', why: 'Faster' })
  await assertAccessible(page, 'refused')
  await dialog.getByRole('button', { name: 'Close' }).click()
  await dialog.waitFor({ state: 'detached' })
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
