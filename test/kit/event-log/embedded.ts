import { openEmbeddedLog, type EventLog } from '@instar/log'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CUT_SCHEMAS, type OpenOptions, type Opened } from './harness.ts'

export const openElsewhere = (place: string, readOnly: boolean): Promise<EventLog> =>
  openEmbeddedLog({ folder: place, readOnly, schemas: CUT_SCHEMAS })

export const openEmbedded = async (options: OpenOptions = {}): Promise<Opened> => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  const opened: EventLog[] = []
  const open = async (again: OpenOptions): Promise<EventLog> => {
    const log = await openEmbeddedLog({ folder, schemas: CUT_SCHEMAS, ...options, ...again })
    opened.push(log)
    return log
  }
  return {
    log: await open({}),
    reopen: (again = {}) => open(again),
    async remove() {
      for (const log of opened) await log.close()
      await rm(folder, { recursive: true })
    },
    elsewhere: { module: import.meta.url, place: folder },
  }
}
