/** A Chromium of the machine, driven by playwright-core; and the accessibility rules of axe in its pages. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { chromium, type Browser, type Page } from 'playwright-core'

const PLACES = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
]

export const chromiumPath = (): string | null =>
  [process.env['INSTAR_CHROMIUM'] ?? '', ...PLACES].find((place) => place !== '' && existsSync(place)) ?? null

/** Without its sandbox, which root and containers cannot have. */
export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: chromiumPath()!, args: ['--no-sandbox', '--disable-dev-shm-usage'] })

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

type Violation = { id: string; help: string; nodes: { html: string }[] }

/** Fails with the rules that the page breaks. */
export const assertAccessible = async (page: Page, name: string): Promise<void> => {
  // The page's own policy allows no script but its own; the debugger's evaluation is exempt.
  await page.evaluate(AXE)
  const violations = await page.evaluate(
    (rules) =>
      (
        globalThis as unknown as {
          axe: { run(options: unknown): Promise<{ violations: Violation[] }> }
        }
      ).axe
        .run({ runOnly: { type: 'tag', values: rules } })
        .then((found) => found.violations),
    RULES,
  )
  assert.deepEqual(
    violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html.slice(0, 200)}`),
    [],
    name,
  )
}

/** Texts that a page must show as they are. */
export const HOSTILE = '<img src=x onerror="document.title=\'hacked\'"><script>document.title="hacked"</script>'
