/** An embedded log that this build and a later one open alternately. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { decodeRecord } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { ROOT } from '../../tools/tree.ts'
import { laterBuild } from './other-build.ts'

const LATER = ['TurnScored', 'BatchSealed', 'UpdateComputed', 'VersionPublished'] as const

test(
  'this build continues a log of a later build, and the later build continues it again, without a loss',
  { timeout: 120_000 },
  async (t) => {
    using later = laterBuild(LATER, ['kit', 'upgrade'])
    const folder = mkdtempSync(join(tmpdir(), 'instar-order-'))
    t.after(() => rmSync(folder, { recursive: true, force: true }))
    for (const [life, root] of [ROOT, later.root, ROOT, later.root].entries()) {
      const { stdout } = await promisify(execFile)(
        process.execPath,
        [join(root, 'test/upgrade/processes/life.ts'), folder, String(8 * life)],
        // A cache would keep each run's copy of the sources.
        root === ROOT ? {} : { env: { ...process.env, NODE_DISABLE_COMPILE_CACHE: '1' } },
      )
      assert.deepEqual(JSON.parse(stdout), { batches: 2 * life + 2, versions: 2 * life + 2 }, `life ${life}`)
    }
    const log = await openEmbeddedLog({ folder, readOnly: true })
    const schemas: Record<string, number> = {}
    const scored = new Set<string>()
    for (const topic of ['scores', 'updates', 'weights'] as const) {
      for await (const records of log.read(topic)) {
        for (const record of records) {
          schemas[record.schema] = (schemas[record.schema] ?? 0) + 1
          const { event } = decodeRecord(record)
          if (event.type === 'TurnScored') scored.add(event.turn)
        }
      }
    }
    await log.close()
    assert.equal(scored.size, 32)
    for (const name of LATER) {
      const both = [`${name}.v${later.versions[name]! - 1}`, `${name}.v${later.versions[name]}`]
      assert.deepEqual(
        both.map((schema) => schemas[schema]),
        name === 'TurnScored' ? [16, 16] : [4, 4],
        name,
      )
    }
  },
)
