import assert from 'node:assert/strict'
import { readFileSync, rmSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import type { Browser, BrowserContext, Page, Route } from 'playwright-core'
import { up } from '../kit/up.ts'
import { assertAccessible, HOSTILE, launch } from './browser.ts'
import { LOOKS, pagesOf } from './pages.ts'
import { visit } from './visit.ts'
import {
  answerTo,
  answerWith,
  branched,
  cli,
  converse,
  openPage,
  poster,
  projected,
  published,
  watchedPage,
} from './rig.ts'

let browser: Browser
let started: Awaited<ReturnType<typeof up>>
let folder: string
let page: Page
let context: BrowserContext
/** Errors of the page's scripts and of its policy. */
const faults: string[] = []

const post = poster(() => started.ready.url)
const open = (address: string): Promise<void> => openPage(page, started.ready.url, address)

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'instar-web-'))
  started = await up(path.join(folder, 'data'))
  browser = await launch()
  context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  context.setDefaultTimeout(60_000)
  page = await watchedPage(context, faults)
})
after(async () => {
  await browser?.close()
  started?.child.kill('SIGTERM')
  await started?.ended
  if (folder) rmSync(folder, { recursive: true, force: true })
})

test('before the first turn the page says how to connect, and its chat makes the first turn', async () => {
  await open('/')
  await page.getByText('No conversation yet').waitFor()
  assert.match((await page.locator('pre').first().textContent()) ?? '', new RegExp(`${started.ready.url}/v1`))
  await assertAccessible(page, 'connect')
  await page.getByLabel('Message').fill(`Hello ${HOSTILE}`)
  await page.getByRole('button', { name: 'Send' }).click()
  // The page turns to what happens now, once there is a turn.
  await page.getByRole('heading', { name: 'Now', exact: true }).waitFor()
  await open('/talk')
  await page.getByLabel('Message').fill('What is the capital of France?')
  await page.getByRole('button', { name: 'Send' }).click()
  await page.getByRole('button', { name: 'Good answer' }).click()
  await page.getByText('Recorded').waitFor()
})

test('texts of people are text on every page', async () => {
  const { turn } = await post('/v1/chat/completions', {
    model: 'policy',
    user: HOSTILE,
    tools: [{ type: 'function', function: { name: 'look', parameters: { type: 'object' } } }],
    messages: [
      { role: 'system', content: HOSTILE },
      { role: 'user', content: HOSTILE },
    ],
  })
  await projected(started.ready.url, String(turn))
  await open('/sessions')
  await page.locator('tbody tr a').first().waitFor()
  await page.locator('tbody tr a').first().click()
  await page.getByText('onerror=').first().waitFor()
  assert.equal(await page.title(), 'Instar')
  assert.equal(await page.locator('main img').count(), 0)
  await page.locator('a[href^="#/turns/"]').first().click()
  await page.getByRole('heading', { name: 'Answer, token by token' }).waitFor()
  await page.getByText('Prompt as the model saw it').click()
  await page.getByText('onerror=').first().waitFor()
  assert.deepEqual([await page.title(), await page.locator('main img').count()], ['Instar', 0])
})

test('words are searched in texts, and a session is exported as lines that import reads', async () => {
  await open('/sessions')
  await page.getByLabel('Words in texts').fill('ONERROR=')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.locator('.hits mark').first().waitFor()
  assert.equal(await page.locator('.hits mark').first().textContent(), 'onerror=')
  assert.match((await page.locator('[role=status]').allTextContents()).join(), /[12] of the newest \d+ turns/)
  await assertAccessible(page, 'search')
  await page.locator('.hits a').first().click()
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export' }).click(),
  ])
  assert.match(download.suggestedFilename(), /\.jsonl$/)
  const file = path.join(folder, 'session.jsonl')
  await download.saveAs(file)
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  assert.match((JSON.parse(lines[0]!) as { request: { model: string } }).request.model, /^policy/)
  assert.match(lines.join(), /onerror=/)
  const imported = JSON.parse(await cli({ INSTAR_DATA: path.join(folder, 'other') }, 'import', file, '--json')) as {
    turns: number
  }
  assert.equal(imported.turns, lines.length)
})

/** The banner lets a reading take ten seconds, on the page's own clock, and reads again a second after one has ended. */
const assertPatience = async (): Promise<void> => {
  // The clock is that of all pages of a context.
  await using own = await browser.newContext()
  own.setDefaultTimeout(60_000)
  const slow = await watchedPage(own, faults)
  await slow.clock.install()
  const held: Route[] = []
  let ended = 0
  slow.on('requestfailed', (request) => {
    if (request.url().endsWith('/v1/dashboard/versions')) ended++
  })
  await slow.route('**/v1/dashboard/versions', (route) => void held.push(route))
  const untilHeld = async (count: number): Promise<number> => {
    let passed = 0
    for (; held.length < count; passed += 100) await slow.clock.runFor(100)
    return passed
  }
  await openPage(slow, started.ready.url, '/talk')
  await untilHeld(1)
  await slow.clock.runFor(9_000)
  assert.deepEqual([held.length, ended], [1, 0])
  const response = await answerTo(held[0]!)
  const found = (await response.json()) as { versions: { version: number }[] }
  await answerWith(held[0]!, response, { ...found, versions: found.versions.filter(({ version }) => version === 0) })
  assert.ok((await untilHeld(2)) >= 1_000)
  await slow.clock.runFor(9_000)
  assert.deepEqual([held.length, ended], [2, 0])
  await untilHeld(3)
  assert.equal(ended, 1)
  await answerWith(held[2]!, response, found)
  const banner = slow.getByRole('region', { name: 'First version' })
  await slow.clock.runFor(100)
  await banner.getByText(/It was trained on \d+ turns/).waitFor()
  await slow.clock.runFor(30_000)
  assert.equal(held.length, 3)
}

test('a link opens a session; learning is frozen and resumed, and an earlier version serves, each with a reason', async () => {
  await converse(post, 'ann')
  await published(started.ready.url)
  await open('/versions')
  await page.getByRole('link', { name: '1', exact: true }).first().waitFor()
  for (const name of ['Freeze learning', 'Serve']) {
    const button = page.getByRole('button', { name }).first()
    assert.ok(await button.isDisabled(), 'no action without a session')
    assert.equal(await button.getAttribute('title'), 'Needs the scope admin')
  }
  const { url } = JSON.parse(await cli(started.env, 'open', '--json')) as { url: string }
  await page.goto(url)
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  assert.ok(!page.url().includes('code='), 'the code has left the address')
  await open('/versions')
  // As a read model that is behind the gateway answers: without version 1, then that nothing has changed, to both readers.
  let early = 0
  await page.route('**/v1/dashboard/versions', async (route) => {
    if (++early > 8) return route.continue()
    if (route.request().headers()['if-none-match'] === '"early"') return route.fulfill({ status: 304 })
    const response = await answerTo(route)
    const found = (await response.json()) as { versions: { version: number }[] }
    const versions = found.versions.filter(({ version }) => version === 0)
    return route.fulfill({
      response,
      headers: { ...response.headers(), etag: '"early"' },
      json: { ...found, versions },
    })
  })
  await page.reload()
  const banner = page.getByRole('region', { name: 'First version' })
  await banner.getByText(/It was trained on \d+ turns with a mean reward of/).waitFor()
  assert.ok(early > 8)
  await page.unrouteAll({ behavior: 'wait' })
  await assertPatience()
  await assertAccessible(page, 'first version')
  await banner.getByRole('button', { name: 'Dismiss' }).click()
  await page.reload()
  await page.getByRole('button', { name: 'Freeze learning' }).click()
  assert.equal(await banner.count(), 0, 'a banner that was dismissed stays away')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill(`Look first ${HOSTILE}`)
  await assertAccessible(page, 'dialog')
  await dialog.getByRole('button', { name: 'Freeze learning' }).click()
  await page.getByRole('button', { name: 'Resume learning' }).click()
  await page.getByRole('dialog').getByLabel('Reason').fill('Seen')
  await page.getByRole('dialog').getByRole('button', { name: 'Resume learning' }).click()
  await page.getByRole('button', { name: 'Serve' }).last().click()
  await page.getByRole('dialog').getByLabel('Reason').fill('Version 1 is worse')
  await page.getByRole('dialog').getByRole('button', { name: 'Serve version 0' }).click()
  await page.getByText('moved the head from version').first().waitFor()
  const shown = JSON.parse(await cli(started.env, 'versions', '--json')) as { version: number; status: string }[]
  assert.equal(shown.find(({ version }) => version === 0)?.status, 'serving')
  assert.equal(await page.title(), 'Instar', 'a reason is text')
})

test('a visit of a pipeline that runs, as that of the stack of compose', async () => {
  await cli(started.env, 'thaw')
  const { url } = JSON.parse(await cli(started.env, 'open', '--json')) as { url: string }
  await visit(url)
})

test('a branch is promoted through the gate, and its verdict is shown', async () => {
  await cli(started.env, 'replay', '--branch', 'other', '--set', 'lr=0.001', '--json')
  await branched(started.ready.url, 'other')
  await open('/versions')
  await page.reload()
  await page.getByRole('button', { name: 'Promote' }).click()
  const dialog = page.getByRole('dialog')
  await assertAccessible(page, 'promotion')
  await dialog.getByLabel('Reason').fill(`Better ${HOSTILE}`)
  await dialog.getByRole('button', { name: 'Promote other' }).click()
  await dialog.getByRole('status').waitFor({ timeout: 60_000 })
  const said = (await dialog.getByRole('status').textContent()) ?? ''
  await dialog.getByRole('button', { name: 'Close' }).click()
  const shown = JSON.parse(await cli(started.env, 'versions', '--json')) as { version: number; why: string }[]
  const promoted = shown.filter(({ why }) => why === 'promotion')
  if (promoted.length === 0) assert.match(said, /^The gate rejected it: [a-z ]+\. Version \d+ still serves\.$/)
  else {
    assert.equal(said, `Version ${promoted[0]!.version} serves, promoted from other.`)
    await page.getByText('was promoted from the branch other').waitFor()
  }
  await page.getByText('“Better <img src=x').first().waitFor()
  assert.equal(await page.title(), 'Instar', 'a reason is text')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
})

test('log-probs of any version are shown for a turn', async () => {
  await open('/sessions')
  await page.locator('tbody tr a').first().click()
  await page.locator('a[href^="#/turns/"]').first().click()
  await page.getByRole('button', { name: 'the base' }).click()
  await page.getByText('log-prob under version 0').waitFor()
  await page.locator('.tokens').focus()
  await page.keyboard.press('ArrowRight')
  await page.getByText(/Token 2 of/).waitFor()
})

test('every page keeps the accessibility rules, light, dark and on a phone, and each chart is one stop', async () => {
  const pages = await pagesOf(started.ready.url)
  for (const [look, options] of Object.entries(LOOKS)) {
    await page.emulateMedia({ colorScheme: options.colorScheme })
    await page.setViewportSize(options.viewport)
    for (const [name, address] of Object.entries(pages)) {
      await open(address)
      await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
      await assertAccessible(page, `${name}, ${look}`)
      assert.ok(
        await page.evaluate('document.documentElement.scrollWidth <= innerWidth + 1'),
        `${name} is wider than the ${look} window`,
      )
    }
  }
  await open('/learning')
  const chart = page.locator('figure.chart svg[tabindex="0"]').first()
  await chart.focus()
  await page.keyboard.press('End')
  assert.match((await page.locator('figure.chart .said').first().textContent()) ?? '', /^v\d+: reward /)
})

test('Health shows what doctor finds in the running gateway', async () => {
  await open('/health')
  const checks = page.getByRole('region', { name: 'Checks' })
  await checks.getByText('migrations of this build').waitFor()
  for (const name of ['node', 'data folder', 'log', 'engine', 'PostgreSQL', 'projections'])
    await checks.getByRole('cell', { name, exact: true }).waitFor()
  assert.match((await checks.textContent()) ?? '', /GiB free.*turns.*PostgreSQL/s)
  await page.getByRole('button', { name: 'Check again' }).click()
  await page.getByText('Checked at').waitFor()
})

test('tabs that are not seen leave the connections of the browser to the one that is', async () => {
  const tabs: Page[] = []
  for (let n = 0; n < 8; n += 1) {
    const tab = await watchedPage(context, faults)
    tabs.push(tab)
    await tab.goto(`${started.ready.url}/#/`)
    await tab.getByText('Live', { exact: true }).waitFor()
    // A browser without windows has no tabs in the background.
    await tab.evaluate(`Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true })
      document.dispatchEvent(new Event('visibilitychange'))`)
  }
  const [first] = tabs
  await first!.evaluate(`delete document.visibilityState
    document.dispatchEvent(new Event('visibilitychange'))`)
  await first!.getByText('Live', { exact: true }).waitFor()
  for (const tab of tabs) await tab.close()
})

test('a page whose session has ended says what to do, and one whose gateway restarts recovers', async () => {
  await page.setViewportSize({ width: 1280, height: 900 })
  await context.clearCookies()
  await page.reload()
  await open('/versions')
  await page.getByText('opens one that has it').waitFor()
  await open('/')
  await page.getByText('Live', { exact: true }).waitFor()
  const { port } = new URL(started.ready.url)
  started.child.kill('SIGTERM')
  await started.ended
  await page.getByText('Connection lost').waitFor()
  started = await up(path.join(folder, 'data'), ['--port', port])
  await page.getByText('Live', { exact: true }).waitFor({ timeout: 60_000 })
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(faults, [])
})
