import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { openMemoryLog } from '../memory/log.ts'
import { openSnapshots } from './store.ts'

test(
  'the folder of snapshots has mode 700, also if it existed with another mode',
  { skip: process.platform === 'win32' },
  async () => {
    const parent = mkdtempSync(join(tmpdir(), 'instar-private-'))
    try {
      for (const exists of [false, true]) {
        const folder = join(parent, String(exists))
        if (exists) {
          mkdirSync(folder)
          chmodSync(folder, 0o755)
        }
        const snapshot = openSnapshots(folder).of('gateway.policy.turns', { number: 1, migrations: {} })
        await snapshot.open(openMemoryLog())
        assert.equal(statSync(folder).mode & 0o777, 0o700)
        await snapshot.close()
      }
    } finally {
      rmSync(parent, { recursive: true })
    }
  },
)
