/** `npm run test:model`: fetches a real model once (93 MB), then runs the tests of this folder on it. Takes about two minutes and 3 GB. */
import path from 'node:path'
import { run } from 'node:test'
import { spec } from 'node:test/reporters'
import { fetchSmolLM2 } from './fetch.ts'

const here = import.meta.dirname
process.env['INSTAR_TEST_MODEL'] = await fetchSmolLM2(path.resolve(here, '../../.cache'))
const events = run({ files: [path.join(here, 'smollm2.test.ts')], timeout: 1_200_000 })
events.on('test:summary', ({ file, success }) => {
  if (file === undefined) process.exitCode = success ? 0 : 1
})
events.compose(new spec()).pipe(process.stdout)
