/** `instar versions` of a line whose trainer waits. */
import { match } from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, schemaTexts, type Event } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { createMetrics } from '@instar/process'
import { TRAINER_WAITS } from '@instar/process/metrics/labels'
import { folder, instar } from '../../test/kit/cli.ts'
import { ADMIN_TOKEN, startRig } from '../../test/kit/gateway.ts'

const LINE: Event = {
  type: 'LineStarted',
  prev: '',
  policy: 'policy',
  mode: 'live',
  base: { name: 'tiny', sha256: '9'.repeat(64) },
  parent: null,
  settings: {},
  at: 1,
}
const BATCH: Event = {
  type: 'BatchSealed',
  prev: '',
  policy: 'policy',
  number: 1,
  parent: { version: 0, adapter: null, state: null },
  items: [],
  dropped: [],
  baselines: [],
  seed: 1,
  loss: 'combined',
  settings: {},
  at: 1,
}

test('versions says that a trainer waits and why, where a gateway of its line tells it, and else that it may', async (t) => {
  const data = join(folder(), 'data')
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  for (const event of [LINE, BATCH]) {
    const { id: _, ...record } = encodeEvent(event)
    await log.append([record])
  }
  await log.close()
  const metrics = createMetrics()
  let waits: (typeof TRAINER_WAITS)[number] = 'compute'
  metrics.read('instar_trainer_waits', () => TRAINER_WAITS.map((one) => [{ for: one }, one === waits ? 1 : 0]))
  const rig = await startRig({ ports: { metrics } })
  t.after(() => rig.stop())
  const env = { INSTAR_DATA: data, INSTAR_PORT: new URL(rig.url).port, INSTAR_ADMIN_TOKEN: ADMIN_TOKEN }
  const said = async (): Promise<string> => (await instar(['versions'], env)).out
  match(await said(), /^update 1: computing for \d+ s$/m)
  waits = 'trainer_denied'
  // A reading is shared for a short time.
  let text = await said()
  for (let i = 0; i < 20 && /computing/.test(text); i += 1) text = await said()
  match(text, /^update 1 waits: the training server refuses the trainer, or its answers do not fit$/m)
  waits = 'other'
  for (let i = 0; i < 20 && !/tries again/.test(text); i += 1) text = await said()
  match(text, /^update 1 waits: tries again after an error, which the trainer’s log names$/m)
  await rig.stop()
  match(await said(), /^update 1: computing for \d+ s$/m)
})
