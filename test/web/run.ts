/**
 * `npm run test:web [-- PART | --url LINK]`: the dashboard in a real browser, on a pipeline of its own; PART: the files whose
 * name has it; or, with a link of
 * `instar open`, on one that runs. Needs a Chromium (Debian: `apt-get install chromium`), or INSTAR_CHROMIUM. Takes one to
 * two minutes.
 */
import path from 'node:path'
import { parseArgs } from 'node:util'
import { runTests } from '../../tools/runner.ts'
import { chromiumPath } from './browser.ts'

const { values, positionals } = parseArgs({ options: { url: { type: 'string' } }, allowPositionals: true })
const { url } = values

const FILES = [
  'dashboard.test.ts',
  'turns.test.ts',
  'actions.test.ts',
  'reading.test.ts',
  'figures.test.ts',
  'first-run.test.ts',
  'access.test.ts',
  'lineage.test.ts',
  'curves.test.ts',
  'conversation.test.ts',
]

if (chromiumPath() === null) {
  process.stderr.write('test:web: no Chromium here (apt-get install chromium, or set INSTAR_CHROMIUM)\n')
  process.exitCode = 1
} else {
  if (url) process.env['INSTAR_WEB_LINK'] = url
  const files = url ? ['running.test.ts'] : FILES.filter((file) => positionals.every((part) => file.includes(part)))
  const passed = await runTests(
    files.map((file) => path.join(import.meta.dirname, file)),
    { timeout: 600_000 },
  )
  process.exitCode ??= passed ? 0 : 1
}
