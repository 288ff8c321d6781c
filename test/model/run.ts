/**
 * `npm run test:model`: fetches a real model once (93 MB), then runs the tests of this folder on it. Takes about two
 * minutes and 3 GB.
 */
import path from 'node:path'
import { runTests } from '../../tools/runner.ts'
import { fetchSmolLM2 } from '../../cli/src/smollm2.ts'

const here = import.meta.dirname
process.env['INSTAR_TEST_MODEL'] = await fetchSmolLM2(path.resolve(here, '../../.cache'))
const passed = await runTests([path.join(here, 'smollm2.test.ts')], { timeout: 1_200_000 })
process.exitCode ??= passed ? 0 : 1
