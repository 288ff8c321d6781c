/**
 * `npm run pictures -- DATA [OUT]`: pictures of each page of the dashboard, from the data folder that `npm run demo -- --keep`
 * leaves, to which it adds a rollback, a freeze, a branch and a rejected update. OUT: default docs/dashboard. Needs a
 * Chromium, as `npm run test:web`.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Page } from 'playwright-core'
import { ROOT } from '../../tools/tree.ts'
import { up } from '../kit/up.ts'
import { launch } from './browser.ts'
import { LOOKS, pagesOf } from './pages.ts'
import { addEvents } from './picture-history.ts'
import { cli } from './rig.ts'

const [data, out = path.join(ROOT, 'docs/dashboard')] = process.argv.slice(2)
if (data === undefined) {
  process.stderr.write('usage: npm run pictures -- DATA [OUT]\n')
  process.exit(2)
}
mkdirSync(out, { recursive: true })

type Act = (page: Page) => Promise<void>
const QUESTION = 'What is 17 plus 5?'

/** What is done on a page before its picture is taken. */
const ACTS: Readonly<Record<string, Act>> = {
  turn: async (page) => {
    await page.getByRole('button', { name: 'What the update did with each' }).click()
    await page.getByText('The hint was').or(page.getByText('The hint was distilled')).first().waitFor()
    await page.locator('.tokens').focus()
    for (let n = 0; n < 3; n += 1) await page.keyboard.press('ArrowRight')
    await page.locator('.tokens').blur()
    await page.locator('.token-facts').scrollIntoViewIfNeeded()
  },
  compare: async (page) => {
    await page.getByLabel('What to ask').fill(QUESTION)
    await page.getByRole('button', { name: 'Ask both' }).click()
    await page.getByText(/equal tokens|tokens that the other answer lacks/).waitFor()
    // A phone shows the form alone.
    if (page.viewportSize()!.width < 720)
      await page.getByRole('status').filter({ hasText: 'token' }).scrollIntoViewIfNeeded()
  },
  talk: async (page) => {
    await page.getByLabel('Message').fill(QUESTION)
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('button', { name: 'Good answer' }).click()
    await page.getByText('Recorded').waitFor()
  },
}

type Found = {
  turns: { turn_id: string; session_id: string; used: boolean; reward: number | null; hint: string | null }[]
}
const read = async <T>(url: string): Promise<T> => (await (await fetch(url)).json()) as T

/** A turn that an update was trained on with its hint, in the newest version that has one. */
const trainedTurn = async (gateway: string): Promise<{ version: number; turn: string; session: string } | null> => {
  const { versions } = await read<{ versions: { version: number }[] }>(`${gateway}/v1/dashboard/versions`)
  for (const { version } of versions) {
    const { turns } = await read<Found>(`${gateway}/v1/dashboard/versions/${version}`)
    for (const turn of turns.filter(({ used, hint, reward }) => used && hint && (reward ?? 0) < 0)) {
      const learned = await read<{ teacher?: unknown; hint_dropped?: boolean }>(
        `${gateway}/v1/dashboard/turns/${turn.turn_id}/learned`,
      )
      if (learned.teacher && !learned.hint_dropped) return { version, turn: turn.turn_id, session: turn.session_id }
    }
  }
  return null
}

const take = async (
  folder: string,
  pages: (gateway: string) => Promise<Readonly<Record<string, string>>>,
): Promise<void> => {
  const started = await up(folder)
  const browser = await launch()
  try {
    const page = await browser.newPage()
    /** Answers that a page waits for; the stream of figures never ends. */
    let awaited = 0
    const count = (by: number) => (request: { url(): string }) => {
      if (/\/v1\/dashboard\/(?!events)/.test(request.url())) awaited += by
    }
    page.on('request', count(1)).on('requestfinished', count(-1)).on('requestfailed', count(-1))
    await page.goto((JSON.parse(await cli(started.env, 'open', '--json')) as { url: string }).url)
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    const all = await pages(started.ready.url)
    for (const [look, { colorScheme, viewport }] of Object.entries(LOOKS)) {
      await page.emulateMedia({ colorScheme })
      await page.setViewportSize(viewport)
      for (const [name, address] of Object.entries(all)) {
        await page.goto(`${started.ready.url}/#${address}`)
        await page.locator('h1').first().waitFor()
        await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
        while (awaited > 0)
          await Promise.race([page.waitForEvent('requestfinished'), page.waitForEvent('requestfailed')])
        await ACTS[name]?.(page)
        await page.screenshot({ path: path.join(out, `${name}-${look}.png`) })
      }
    }
  } finally {
    await browser.close()
    started.child.kill('SIGTERM')
    await started.ended
  }
}

await addEvents(path.resolve(data))
await take(path.resolve(data), async (gateway) => {
  const trained = await trainedTurn(gateway)
  return {
    ...(await pagesOf(gateway, '?reward=negative')),
    ...(trained
      ? {
          version: `/versions/${trained.version}`,
          session: `/sessions/${trained.session}`,
          turn: `/turns/${trained.turn}`,
        }
      : {}),
  }
})
const empty = mkdtempSync(path.join(tmpdir(), 'instar-pictures-'))
await take(empty, async () => ({ 'first-run': '/' }))
rmSync(empty, { recursive: true, force: true })
