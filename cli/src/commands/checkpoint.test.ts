/** `instar checkpoint` and `instar verify --checkpoints` on the embedded log. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { encodeEvent, schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { folder, instar } from '../../../test/kit/cli.ts'
import { randomHistory } from '../../../test/kit/histories.ts'
import { seeded } from '../../../test/kit/random.ts'

type Written = { checkpoints: { name: string; written: boolean; file: string; rows: number; digest: string }[] }
type Verified = {
  ok: boolean
  checkpoints: { name: string; ok: boolean; file: string; digest: string }[]
  first: unknown
}

const NAMES = ['scorer.policy', 'trainer.policy', 'publisher.policy', 'gateway.policy.turns']

test('checkpoints are written once per state of the log and verified; a changed file is named with exit code 1', async () => {
  const data = join(folder(), 'data')
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(randomHistory(seeded(3), 800).events.map((event) => encodeEvent(event)))
  const env = { INSTAR_DATA: data }
  const inUse = await instar(['checkpoint'], env)
  deepEqual([inUse.code, /data_in_use/.test(inUse.err)], [1, true], inUse.err)
  await log.close()

  const none = await instar(['verify', '--checkpoints', '--json'], env)
  deepEqual(
    [none.code, none.json],
    [0, { ok: true, checkpoints: [], first: null, unreadable: { records: 0, first: [] } }],
  )
  const first = await instar(['checkpoint', '--json'], env)
  equal(first.code, 0, first.err)
  const { checkpoints } = first.json as Written
  deepEqual(
    checkpoints.map(({ name, written, rows }) => [name, written, rows > 10]),
    NAMES.map((name) => [name, true, true]),
  )
  deepEqual(
    readdirSync(join(data, 'checkpoints')).sort(),
    checkpoints.map(({ name, file }) => `${name}.${file}.state.zst`).sort(),
  )
  const again = await instar(['checkpoint', 'trainer'], env)
  match(again.out, /trainer\.policy .* no, nothing is new/)

  const verified = await instar(['verify', '--checkpoints', '--json'], env)
  equal(verified.code, 0, verified.err)
  deepEqual(
    (verified.json as Verified).checkpoints.map(({ name, ok, file, digest }) => [name, ok, file, digest]),
    checkpoints.map(({ name, digest }) => [name, true, 'equal', digest]),
  )
  match((await instar(['verify', '--checkpoints'], env)).out, /no difference: 4 checkpoints/)

  const path = join(data, 'checkpoints', `gateway.policy.turns.${checkpoints[3]!.file}.state.zst`)
  const bytes = readFileSync(path)
  bytes[bytes.length >> 1]! ^= 1
  writeFileSync(path, bytes)
  const changed = await instar(['verify', '--checkpoints'], env)
  equal(changed.code, 1)
  match(
    changed.out,
    /first difference: the checkpoint of gateway\.policy\.turns, record [0-9a-f]{64}\n {2}.* does not match its sha256\n/,
  )

  // A record that is damaged is passed over by every process, and said.
  using db = new DatabaseSync(join(data, 'log', 'log.db'))
  const { offset } = db.prepare('SELECT max(offset) AS offset FROM upgrades').get() as { offset: number }
  db.prepare('UPDATE upgrades SET checksum = checksum + 1 WHERE offset = ?').run(offset)
  const passed = await instar(['verify', '--checkpoints', '--json'], env)
  const { ok, checkpoints: left, unreadable } = passed.json as Verified & { unreadable: unknown }
  deepEqual([passed.code, ok, left.length], [0, true, 3], 'that of the gateway, whose file was changed, is the last')
  deepEqual(unreadable, { records: 1, first: [{ topic: 'upgrades', partition: 0, offset }] })
  match(
    (await instar(['verify', '--checkpoints'], env)).out,
    /no difference: 3 checkpoints\n1 record beside them cannot be decoded, and may have been of a checkpoint; the first: upgrades 0@\d+\n$/,
  )

  equal((await instar(['checkpoint', 'projections'], env)).code, 2)
  equal((await instar(['verify', '3', '--checkpoints'], env)).code, 2)
})
