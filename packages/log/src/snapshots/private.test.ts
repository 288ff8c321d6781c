import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { openMemoryLog } from '../memory/log.ts'
import { openSnapshots } from './store.ts'

test(
  'a folder of snapshots is its owner’s alone, also one that was made for everybody',
  { skip: process.platform === 'win32' },
  async () => {
    const above = mkdtempSync(join(tmpdir(), 'instar-private-'))
    try {
      for (const made of [false, true]) {
        const folder = join(above, String(made))
        if (made) {
          mkdirSync(folder)
          chmodSync(folder, 0o755)
        }
        const snapshot = openSnapshots(folder).of('gateway.policy.turns', 'v')
        await snapshot.open(openMemoryLog())
        assert.equal(statSync(folder).mode & 0o777, 0o700)
        await snapshot.close()
      }
    } finally {
      rmSync(above, { recursive: true })
    }
  },
)
