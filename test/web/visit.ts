/** A visit to a pipeline that runs: each page, and an action by clicking. Leaves learning as it was: not frozen. */
import assert from 'node:assert/strict'
import { assertAccessible, launch } from './browser.ts'
import { LOOKS, pagesOf } from './pages.ts'
import { openPage, watchedPage } from './rig.ts'

/** `link`: of `instar open`. The pipeline has a version 1, a session with a turn, and learns. */
export const visit = async (link: string): Promise<void> => {
  const url = new URL(link).origin
  const browser = await launch()
  try {
    const context = await browser.newContext({ viewport: LOOKS.light.viewport })
    context.setDefaultTimeout(30_000)
    const faults: string[] = []
    const page = await watchedPage(context, faults)
    await page.goto(link)
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    for (const [name, address] of Object.entries(await pagesOf(url))) {
      await openPage(page, url, address)
      await page.waitForSelector('[aria-busy=true]', { state: 'detached' })
      assert.equal(await page.locator('.note.error[role=alert]').count(), 0, `${name} shows an error`)
      await assertAccessible(page, name)
    }
    await openPage(page, url, '/health')
    await page.getByText('Checked at').waitFor()
    const checks = page.getByRole('region', { name: 'Checks' })
    await checks.getByRole('cell', { name: 'projections', exact: true }).waitFor()
    await openPage(page, url, '/versions')
    for (const verb of ['Freeze learning', 'Resume learning']) {
      await page.getByRole('button', { name: verb }).click()
      const dialog = page.getByRole('dialog')
      await dialog.getByLabel('Reason').fill('A visit of the tests')
      await dialog.getByRole('button', { name: verb }).click()
      await dialog.waitFor({ state: 'detached' })
    }
    await page.getByRole('button', { name: 'Freeze learning' }).waitFor()
    await page.getByText('resumed learning: “A visit of the tests”').first().waitFor()
    assert.deepEqual(faults, [])
  } finally {
    await browser.close()
  }
}
