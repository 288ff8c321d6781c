/** Processes that are killed at random moments while they write the file. */
import { encodeEvent, schemaTexts } from '@instar/events'
import type { Topic } from '@instar/events/flow'
import { openEmbeddedLog } from '@instar/log'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { seeded } from '../kit/random.ts'
import { randomHistory } from '../kit/histories.ts'
import { SERVICES } from './services.ts'
import { fromStart, whole } from './snapshots.features.ts'

const KILLS = 6
/** Enough of those that a service reads for as many snapshots as the kills wait for; most are of `turns`. */
const recordsFor = (topics: readonly Topic[]): number => (topics.includes('turns') ? 3_000 : 12_000)

for (const service of SERVICES) {
  test(
    `a ${service.name} that is killed repeatedly while it takes snapshots loses and duplicates nothing`,
    { timeout: 120_000 },
    async (t) => {
      const folder = mkdtempSync(join(tmpdir(), 'instar-kill-'))
      const [place, snapshots] = [join(folder, 'log'), join(folder, 'snapshots')]
      const log = await openEmbeddedLog({ folder: place, schemas: schemaTexts() })
      try {
        const random = seeded(service.name.length)
        const history = randomHistory(random, recordsFor(service.topics))
        await log.append(
          history.events
            .map((event) => encodeEvent(event))
            .map(({ topic, key, schema, payload, timestamp }) => ({ topic, key, schema, payload, timestamp })),
        )
        let killed = 0
        for (let i = 0; i < KILLS; i += 1) {
          const child = spawn(
            process.execPath,
            [fileURLToPath(new URL('processes/folder.ts', import.meta.url)), service.name, place, snapshots],
            { stdio: ['ignore', 'pipe', 'inherit'] },
          )
          const exited = once(child, 'exit')
          let left = 1 + random.below(8)
          for await (const line of createInterface({ input: child.stdout })) {
            left -= 1
            if (child.killed || (line !== 'through' && left > 0)) continue
            // A little later, so that the next write is in progress.
            if (line !== 'through') {
              killed += 1
              Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, random.below(4))
            }
            child.kill('SIGKILL')
          }
          await exited
        }
        t.diagnostic(`${killed} killed before the end`)
        assert.ok(killed >= KILLS - 2, `${killed} killed`)
        assert.deepEqual(await whole(log, service, snapshots, history), await fromStart(log, service, history))
      } finally {
        await log.close()
        rmSync(folder, { recursive: true })
      }
    },
  )
}
