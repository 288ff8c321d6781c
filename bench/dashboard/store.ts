/** A log and a read model that hold the history of history.ts, in a folder. */
import { existsSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { schemaTexts } from '@instar/events/codec'
import type { Event } from '@instar/events/records'
import { openEmbeddedLog } from '@instar/log'
import { startPostgres, startProjections } from '@instar/projections'
import { records } from '../../test/kit/projected-history.ts'
import { dashboardHistory, type Size } from './history.ts'

const APPEND_RECORDS = 2_000

/** Fills the folder unless an earlier call has; resolves with the running PostgreSQL. */
export const filledStore = async (folder: string, size: Size): Promise<Awaited<ReturnType<typeof startPostgres>>> => {
  await mkdir(folder, { recursive: true })
  // When this process is root, the server runs as nobody and needs access.
  await chmod(folder, 0o711)
  const done = join(folder, 'filled')
  if (!existsSync(done)) {
    const log = await openEmbeddedLog({ folder: join(folder, 'log'), schemas: schemaTexts() })
    const pending: Event[] = []
    const write = async (): Promise<void> => void (await log.append(records(pending.splice(0))))
    for (const event of dashboardHistory(size)) if (pending.push(event) === APPEND_RECORDS) await write()
    await write()
    await log.close()
  }
  const postgres = await startPostgres({ folder: join(folder, 'postgres') })
  if (!existsSync(done)) {
    const log = await openEmbeddedLog({ folder: join(folder, 'log'), readOnly: true })
    const projections = startProjections({ log, connection: postgres.owner })
    await projections.caughtUp()
    await projections.stop()
    await log.close()
    await writeFile(done, '')
  }
  return postgres
}
