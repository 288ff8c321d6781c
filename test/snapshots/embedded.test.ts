import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { snapshotFeatures } from './snapshots.features.ts'

snapshotFeatures(
  'embedded',
  async () => {
    const folder = mkdtempSync(join(tmpdir(), 'instar-log-'))
    const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
    return {
      log,
      async close() {
        await log.close()
        rmSync(folder, { recursive: true })
      },
    }
  },
  12,
)
