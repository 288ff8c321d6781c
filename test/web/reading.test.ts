/** The pages by keyboard alone; the tables under the charts; what a turn and a rejected update say in figures. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { number } from '../../packages/dashboard/web/format.ts'
import { assertAccessible } from './browser.ts'
import { converse, published, until } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage

const read = async <T>(address: string): Promise<T> =>
  (await (await fetch(`${on.url()}/v1/dashboard/${address}`)).json()) as T

before(async () => {
  on = await stage()
  await converse(on.post, 'ann')
  await published(on.url())
  await on.signIn()
})
after(() => on?.close())

type Stop = { name: string; within: string; outline: number; seen: boolean }

/** The element that has the focus. `within`: names of the elements around it. */
const STOP = `(() => {
  const at = document.activeElement
  const { outlineStyle, outlineWidth } = getComputedStyle(at)
  const { top, bottom } = at.getBoundingClientRect()
  const around = []
  for (let one = at; one; one = one.parentElement) around.push(one.tagName.toLowerCase())
  const label = at.labels?.[0]?.textContent ?? at.textContent
  return {
    name: (at.getAttribute('aria-label') ?? label ?? '').replace(/\\s+/g, ' ').trim(),
    within: around.join(' '),
    outline: outlineStyle === 'none' ? 0 : parseFloat(outlineWidth),
    seen: bottom > 0 && top < innerHeight,
  }
})()`

const stop = (): Promise<Stop> => on.page.evaluate<Stop>(STOP)

/** Presses Tab until the element has the name; each stop on the way has a visible focus, within the window. */
const tabTo = async (name: string, within = ''): Promise<Stop> => {
  for (let presses = 0; presses < 150; presses += 1) {
    await on.page.keyboard.press('Tab')
    const found = await stop()
    if (found.within.startsWith('body')) continue
    assert.ok(found.outline >= 2, `${found.within} ${found.name} shows no focus`)
    assert.ok(found.seen, `${found.within} ${found.name} is out of sight`)
    if (found.name === name && found.within.startsWith(within)) return found
  }
  throw new Error(`no Tab led to ${name}`)
}

const heading = (name: string | RegExp): Promise<void> =>
  on.page.getByRole('heading', { level: 1, name, exact: typeof name === 'string' }).waitFor()

test('a person with a keyboard alone goes to a page, opens a version and filters sessions', async () => {
  const { page } = on
  await on.open('/')
  await page.reload()
  await heading('Now')
  await tabTo('Skip to the page')
  await page.keyboard.press('Enter')
  assert.match((await stop()).within, /^main /)
  await page.reload()
  await heading('Now')
  await tabTo('Versions', 'a nav')
  await page.keyboard.press('Enter')
  await heading('Versions')
  // The focus goes with the page.
  await page.locator('#main:focus').waitFor()
  await tabTo('1', 'a label')
  await page.keyboard.press('Enter')
  await heading('Version 1')
  await page.reload()
  await heading('Version 1')
  await tabTo('Sessions', 'a nav')
  await page.keyboard.press('Enter')
  await heading('Sessions')
  await tabTo('Answered by version', 'input')
  await page.keyboard.type('0')
  await page.keyboard.press('Enter')
  await page.getByText('Filters (1)').waitFor()
  await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
  const { rows } = await read<{ rows: { session_id: string }[] }>('sessions?version=0')
  assert.ok(rows.length > 0)
  assert.equal(await page.getByRole('region', { name: 'Sessions' }).locator('tbody tr').count(), rows.length)
})

test('a dialog takes the focus, keeps it, is left with Escape, and gives it back', async () => {
  const { page } = on
  await on.open('/versions')
  await page.reload()
  await heading('Versions')
  await tabTo('Freeze learning', 'button')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor()
  assert.match((await stop()).within, /^input .*dialog/, 'the reason is asked for first')
  const stops: string[] = []
  for (let presses = 0; presses < 8; presses += 1) {
    await page.keyboard.press('Tab')
    const { within, name } = await stop()
    // Between the last and the first stop the browser's own controls have the focus.
    if (within.startsWith('body')) continue
    assert.match(within, /dialog/, `${name} is behind the dialog`)
    stops.push(name)
  }
  assert.ok(stops.includes('Cancel') && stops.includes('Freeze learning'), stops.join(', '))
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  // The button that opened it.
  await page
    .locator('button:focus')
    .and(page.getByText('Freeze learning', { exact: true }))
    .waitFor()
  assert.equal((await read<{ frozen: boolean }>('now')).frozen, false)
  await page.keyboard.press('Enter')
  await page.keyboard.type('By keyboard')
  await page.keyboard.press('Enter')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Resume learning' }).waitFor()
  await page
    .locator('button:focus')
    .and(page.getByText('Resume learning', { exact: true }))
    .waitFor()
  assert.equal((await read<{ frozen: boolean }>('now')).frozen, true)
})

test('nothing moves for people who have asked for less motion', async () => {
  const { page } = on
  await page.emulateMedia({ reducedMotion: 'reduce' })
  for (const address of ['/', '/versions', '/learning', '/talk']) {
    await on.open(address)
    await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
    const moving = await page.evaluate<string[]>(`[...document.querySelectorAll('*')].flatMap((one) => {
      const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(one)
      return /^0s(, 0s)*$/.test(transitionDuration) && animationName === 'none' && scrollBehavior === 'auto' ? [] : [one.tagName]
    })`)
    assert.deepEqual(moving, [], address)
    assert.equal(await page.evaluate('document.getAnimations().length'), 0)
  }
  await page.emulateMedia({ reducedMotion: null })
})

type Drawn = {
  title: string
  /** Place and text of the ticks of the vertical axis. */
  ticks: [place: number, text: string][]
  dots: number[][]
  bars: number
  head: string[]
  rows: string[][]
}
/** Runs in the page, for one figure. */
const DRAWN = `(figure) => {
  const all = (selector) => [...figure.querySelectorAll(selector)]
  const place = (one, attribute) => Number(one.getAttribute(attribute))
  const dots = (series) => all('svg[tabindex] circle.s' + series).map((one) => place(one, 'cy'))
    .concat(all('svg[tabindex] rect.s' + series).map((one) => place(one, 'y') + 2.7))
  return {
    title: figure.querySelector('strong').textContent,
    ticks: all('.tick[text-anchor=end]').filter((one) => place(one, 'x') < 56)
      .map((one) => [place(one, 'y') - 4, one.textContent]),
    dots: [0, 1].map(dots),
    bars: all('.parts path').reduce((sum, { attributes }) => sum + attributes.d.value.split('z').length - 1, 0),
    head: all('thead th').map((one) => one.textContent.trim()),
    rows: all('tbody tr').map((row) => [...row.children].map((cell) => cell.textContent.trim())),
  }
}`
/** The chart of this number, of those with values. */
const drawnOf = (i: number): string =>
  `(${DRAWN})([...document.querySelectorAll('figure.chart')].filter((one) => one.querySelector('svg[tabindex="0"]'))[${i}])`
/** As format.ts writes numbers. */
const parsed = (text: string): number => Number(text.replace('−', '-').replaceAll(/[ ,%+]/g, ''))

test('the table under each chart has the values that are drawn, and that the arrow keys read', async () => {
  const { page } = on
  await on.open('/learning')
  await page.reload()
  await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
  const charts = page.locator('figure.chart').filter({ has: page.locator('svg[tabindex="0"]') })
  await charts.nth(7).waitFor()
  const shown = await charts.count()
  let compared = 0
  for (let i = 0; i < shown; i += 1) {
    const chart = charts.nth(i)
    await chart.locator('summary').first().focus()
    await page.keyboard.press('Enter')
    await chart.locator('tbody tr').first().waitFor()
    const { title, ticks, dots, bars, head, rows } = await page.evaluate<Drawn>(drawnOf(i))
    assert.equal(head.length, rows[0]!.length, title)
    await chart.locator('svg[tabindex="0"]').focus()
    await page.keyboard.press('Home')
    for (const row of rows) {
      const heard = (await chart.locator('.said').textContent()) ?? ''
      assert.ok(heard.startsWith(`${row[0]}: `), `${title}: ${heard}`)
      const percent = /%/.test(row.slice(1).join(''))
      for (const [at, value] of row.entries())
        if (at > 0 && value !== '–' && !(percent && parsed(value) === 0))
          assert.ok(heard.includes(value), `${title}: ${value} in ${heard}`)
      await page.keyboard.press('ArrowRight')
    }
    if (dots[0]!.length === 0) {
      const parts = rows.flatMap((row) => row.slice(1, -1)).filter((value) => parsed(value) > 0)
      assert.equal(bars, parts.length, `${title}: a bar for each share`)
      continue
    }
    if (ticks.length < 2) continue
    const [[place0, text0], [place1, text1]] = [ticks[0]!, ticks.at(-1)!]
    const perPixel = (parsed(text1) - parsed(text0)) / (place1 - place0)
    for (const [series, places] of dots.entries()) {
      const column = rows.map((row) => row[series + 1]).filter((value) => value !== undefined && value !== '–')
      if (places.length === 0) continue
      assert.equal(places.length, column.length, `${title}: a dot for each value`)
      for (const [at, place] of places.entries()) {
        const value = parsed(column[at]!)
        const drawn = parsed(text0) + (place - place0) * perPixel
        // Half of the last digit of the table and of the ticks, and half a pixel.
        const digit = 10 ** -(column[at]!.split('.')[1]?.replace(/\D/g, '').length ?? 0)
        assert.ok(
          Math.abs(drawn - value) <= digit + Math.abs(perPixel),
          `${title}: ${drawn} drawn, ${value} in the table`,
        )
        compared += 1
      }
    }
  }
  assert.ok(compared >= 10, `${compared} values`)
  await assertAccessible(page, 'tables of the charts')
})

test('a turn whose hint was distilled shows the pull of the hint at each token, as the gateway computes it', async () => {
  const { page } = on
  type Learned = { teacher: number[] | null; old: number[]; hint_dropped: boolean; opd_weight: number }
  const { turns } = await read<{ turns: { turn_id: string; used: boolean; reward: number }[] }>('versions/1')
  let found: { id: string; learned: Learned } | null = null
  for (const { turn_id: id } of turns.filter(({ used, reward }) => used && reward < 0)) {
    const learned = await read<Learned>(`turns/${id}/learned`)
    if (learned.teacher !== null && (found === null || found.learned.hint_dropped)) found = { id, learned }
    if (found !== null && !found.learned.hint_dropped) break
  }
  assert.ok(found, 'a turn with a hint was trained on')
  const { id, learned } = found
  await on.open(`/turns/${id}`)
  await page.getByRole('button', { name: 'What the update did with each' }).click()
  await page.getByText(learned.hint_dropped ? 'The hint was left out' : 'The hint was distilled (OPD').waitFor()
  const facts = page.locator('.token-facts')
  const value = async (name: string): Promise<string> =>
    (await facts
      .locator('dl div')
      .filter({ has: page.getByText(name, { exact: true }) })
      .locator('dd')
      .textContent())!
  await page.locator('.tokens').focus()
  for (let at = 0; at < Math.min(3, learned.old.length); at += 1) {
    await page.getByText(`Token ${at + 1} of`).waitFor()
    const [taught, before] = [learned.teacher![at]!, learned.old[at]!]
    assert.equal(await value('log-prob of the teacher'), number(taught, 3, true))
    if (learned.hint_dropped) assert.equal(await value('pull of the hint'), '0, hint left out')
    else assert.equal(await value('pull of the hint (OPD)'), number(taught - before, 3, true))
    await page.keyboard.press('ArrowRight')
  }
  await assertAccessible(page, 'the pull of a hint')
})

test('an update that the gate rejected answers in Compare beside the version that serves', async (t) => {
  const { page } = on
  await on.stop()
  process.env['INSTAR_SETTINGS'] = JSON.stringify({ gate: { klParent: 0 } })
  t.after(() => delete process.env['INSTAR_SETTINGS'])
  await on.again()
  await on.signIn()
  const post = await fetch(`${on.url()}/admin/thaw`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await on.adminToken()}` },
    body: JSON.stringify({ why: 'A test' }),
  })
  assert.ok(post.ok)
  await converse(on.post, 'ben')
  type Update = { number: number; status: string; reason: string; parent_version: number }
  await until<{ updates: Update[] }>(on.url(), 'lately', ({ updates }) =>
    updates.some(({ status }) => status === 'rejected'),
  )
  const { updates } = await read<{ updates: Update[] }>('lately')
  const update = updates.find(({ status }) => status === 'rejected')!
  assert.equal(update.reason, 'kl_parent')
  await on.open('/compare')
  await page.reload()
  await page.getByLabel('One answer by').selectOption(`update:${update.number}`)
  await page.getByRole('button', { name: 'Ask both' }).click()
  await page.getByText(/equal tokens|tokens that the other answer lacks/).waitFor()
  const answer = page.getByLabel(`Answer of Rejected update ${update.number}`)
  await answer.locator('.token').first().waitFor()
  await assertAccessible(page, 'a rejected update answers')
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
