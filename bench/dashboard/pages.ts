/** The pages in Chromium: when they paint, when they show their data, how long an interaction blocks. */
import type { Browser, BrowserContext, Page, Request } from 'playwright-core'
import { median } from '../machine.ts'

/**
 * Medians in ms. `paint`: the first paint with content; `content`: the page shows its data; `interaction`: from an input to
 * the frame that shows its effect, the slowest of `inputs`.
 */
export type PageRow = { page: string; paint: number; content: number; interaction: number; inputs: number }

type Visit = { name: string; address: string; act?: (page: Page) => Promise<void> }

const BUSY = '[aria-busy=true]'

/** Each address, and what a reader does there. */
export const visits = (session: string, turn: string): Visit[] => [
  { name: 'Now', address: '/', act: (page) => page.getByRole('button', { name: 'Pause' }).click() },
  {
    name: 'Versions',
    address: '/versions',
    act: async (page) => {
      const marks = page.locator('tbody input[type=checkbox]')
      await marks.nth(3).click()
      await marks.nth(40).click()
      await page
        .getByRole('button', { name: /more of/ })
        .first()
        .click()
    },
  },
  {
    name: 'Version',
    address: '/versions/250',
    act: (page) => page.getByText('All figures and limits of the gate').click(),
  },
  {
    name: 'Sessions',
    address: '/sessions',
    act: async (page) => {
      await page.locator('form.filters input').first().fill('session-0100')
      await page.getByRole('button', { name: 'Older sessions' }).click()
    },
  },
  {
    name: 'Session',
    address: `/sessions/${session}`,
    act: (page) => page.getByRole('button', { name: 'Refresh' }).click(),
  },
  { name: 'Turn', address: `/turns/${turn}` },
  {
    name: 'Compare',
    address: '/compare',
    act: (page) => page.getByLabel('What to ask').pressSequentially('Hello there'),
  },
  {
    name: 'Learning',
    address: '/learning',
    act: async (page) => {
      const chart = page.locator('figure.chart svg[tabindex="0"]').first()
      await chart.focus()
      for (const key of ['Home', 'ArrowRight', 'End']) await page.keyboard.press(key)
      await page.getByText('Values as a table').first().click()
    },
  },
  { name: 'Health', address: '/health' },
  { name: 'Talk', address: '/talk', act: (page) => page.getByLabel('Message').pressSequentially('Hello there') },
]

/** Runs in the page: collects the durations of events, as the browser measures them, with 8 ms resolution. */
const OBSERVE = `globalThis.durations = []
new PerformanceObserver((list) => { for (const entry of list.getEntries()) durations.push(entry.duration) })
  .observe({ type: 'event', durationThreshold: 16, buffered: true })`

export const measurePages = async (browser: Browser, url: string, all: Visit[], times: number): Promise<PageRow[]> => {
  const rows: PageRow[] = []
  for (const { name, address, act } of all) {
    const [paints, contents, interactions]: number[][] = [[], [], []]
    let inputs = 0
    for (let time = 0; time < times; time++) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
      try {
        const page = await context.newPage()
        await page.goto(`${url}/#${address}`)
        await page.locator('h1').first().waitFor()
        await page.waitForSelector(BUSY, { state: 'detached' })
        contents!.push(await page.evaluate<number>('performance.now()'))
        paints!.push(
          await page.evaluate<number>(
            `performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? performance.now()`,
          ),
        )
        await page.evaluate(OBSERVE)
        await act?.(page)
        // The next frame has the effect of the last input, and its entry follows.
        const durations = await page.evaluate<number[]>(
          'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(durations)))))',
        )
        inputs = Math.max(inputs, durations.length)
        interactions!.push(Math.max(0, ...durations))
      } finally {
        await context.close()
      }
    }
    rows.push({
      page: name,
      paint: Math.round(median(paints!)),
      content: Math.round(median(contents!)),
      interaction: median(interactions!),
      inputs,
    })
  }
  return rows
}

/** A request of a page. `at`: `performance.now()` of this process. */
export type Seen = { at: number; path: string }
export type OpenPages = {
  /** Requests since the first page was opened, without the streams of figures. */
  requests: readonly Seen[]
  /** Resolves when no page waits for data, and none has asked for anything for `QUIET_MS`. */
  settled(): Promise<void>
  close(): Promise<void>
}

const QUIET_MS = 1_000
const EVENTS = '/v1/dashboard/events'

/** Opens the addresses side by side, each in a browser profile of its own, and leaves them open. */
export const openPages = (browser: Browser, url: string, all: readonly Visit[]): OpenPages => {
  const requests: Seen[] = []
  let [waiting, lastAt] = [0, performance.now()]
  const contexts: BrowserContext[] = []
  const open = async ({ address }: Visit): Promise<Page> => {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
    contexts.push(context)
    const page = await context.newPage()
    const path = (request: Request): string => request.url().slice(url.length)
    const counted =
      (by: number) =>
      (request: Request): void => {
        if (path(request) === EVENTS) return
        lastAt = performance.now()
        waiting += by
        if (by > 0) requests.push({ at: lastAt, path: path(request) })
      }
    page.on('request', counted(1)).on('requestfinished', counted(-1)).on('requestfailed', counted(-1))
    await page.goto(`${url}/#${address}`)
    await page.locator('h1').first().waitFor()
    return page
  }
  const opened = Promise.all(all.map(open))
  opened.catch(() => undefined)
  return {
    requests,
    async settled() {
      const pages = await opened
      for (const page of pages) await page.waitForSelector(BUSY, { state: 'detached' })
      while (waiting > 0 || performance.now() - lastAt < QUIET_MS) await pages[0]!.waitForTimeout(100)
    },
    async close() {
      await opened
      await Promise.all(contexts.map((one) => one.close()))
    },
  }
}
