/**
 * `npm run pictures -- DATA [OUT]`: a picture of each page of the dashboard, from the data folder that `npm run demo -- --keep`
 * leaves. OUT: default docs/dashboard. Needs a Chromium, as `npm run test:web`.
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { execFile } from 'node:child_process'
import { ROOT } from '../../tools/tree.ts'
import { up } from '../kit/up.ts'
import { launch } from './browser.ts'
import { LOOKS, pagesOf } from './pages.ts'

const [data, out = path.join(ROOT, 'docs/dashboard')] = process.argv.slice(2)
if (data === undefined) {
  process.stderr.write('usage: npm run pictures -- DATA [OUT]\n')
  process.exit(2)
}
mkdirSync(out, { recursive: true })
const started = await up(path.resolve(data))
const browser = await launch()
try {
  const open = [path.join(ROOT, 'cli/instar.cjs'), 'open', '--json']
  const { stdout } = await promisify(execFile)(process.execPath, open, { env: { ...process.env, ...started.env } })
  const page = await browser.newPage()
  /** Answers that a page waits for; the stream of figures never ends. */
  let awaited = 0
  const count = (by: number) => (request: { url(): string }) => {
    if (/\/v1\/dashboard\/(?!events)/.test(request.url())) awaited += by
  }
  page.on('request', count(1)).on('requestfinished', count(-1)).on('requestfailed', count(-1))
  await page.goto((JSON.parse(stdout) as { url: string }).url)
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
  const pages = await pagesOf(started.ready.url, '?reward=negative')
  for (const [look, { colorScheme, viewport }] of Object.entries(LOOKS)) {
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize(viewport)
    for (const [name, address] of Object.entries(pages)) {
      await page.goto(`${started.ready.url}/#${address}`)
      await page.locator('h1').first().waitFor()
      await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
      while (awaited > 0) await Promise.race([page.waitForEvent('requestfinished'), page.waitForEvent('requestfailed')])
      await page.screenshot({ path: path.join(out, `${name}-${look}.png`) })
    }
  }
} finally {
  await browser.close()
  started.child.kill('SIGTERM')
  await started.ended
}
