/** A row of the gateway's snapshot that changed on the disk, met by a request. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { InstarError } from '@instar/events'
import { openMemoryLog, openSnapshots } from '@instar/log'
import { startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'

test('a request that meets a damaged row ends the process, which would meet it again for ever', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-damaged-'))
  const log = openMemoryLog()
  const fatal: string[] = []
  let running: Rig | null = null
  const stop = async (): Promise<void> => {
    await running?.stop()
    running = null
  }
  t.after(async () => {
    await stop()
    rmSync(folder, { recursive: true })
  })
  const start = async (): Promise<Rig> => {
    const onFatal = (error: Error): void => void fatal.push((error as InstarError).code)
    return (running = await startRig({
      log,
      settings: { sessions: 1 },
      ports: { snapshots: openSnapshots(folder), onFatal },
    }))
  }
  const say = (rig: Rig, session = 'desk'): Promise<Response> =>
    rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER('Hi')] },
      headers: { 'x-session-id': session },
    })
  const first = await start()
  assert.equal((await say(first)).status, 200)
  // A start reads the recent sessions, so that the damaged row must be of another.
  assert.equal((await say(first, 'later')).status, 200)
  await stop()
  const file = new DatabaseSync(join(folder, 'gateway.policy.turns.db'))
  const { changes } = file
    .prepare(
      "UPDATE entries SET value = zeroblob(length(value)) WHERE name = (SELECT id FROM names WHERE name = 'sessions') AND key = 'desk'",
    )
    .run()
  assert.equal(changes, 1)
  file.close()
  assert.equal((await say(await start())).status, 500)
  assert.deepEqual([...new Set(fatal)], ['snapshot_damaged'])
  await stop()
  assert.equal((await say(await start())).status, 200)
  await stop()
})
