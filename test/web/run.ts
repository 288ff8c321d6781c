/**
 * `npm run test:web`: the dashboard in a real browser, on a pipeline of its own. Needs a Chromium (Debian: `apt-get install
 * chromium`), or INSTAR_CHROMIUM. Takes one to two minutes.
 */
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'
import { chromiumPath } from './browser.ts'

if (chromiumPath() === null) {
  process.stderr.write('test:web: no Chromium here (apt-get install chromium, or set INSTAR_CHROMIUM)\n')
  process.exitCode = 1
} else {
  const passed = await runTests([path.join(import.meta.dirname, 'dashboard.test.ts')], { timeout: 600_000 })
  process.exitCode ??= passed ? 0 : 1
}
