/** `instar verify` of a line whose weights are on servers alone. */
import { deepEqual, equal, match } from 'node:assert/strict'
import { cpSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { ROOT } from '../../../tools/tree.ts'
import { folder, instar } from '../../../test/kit/cli.ts'

const TINY = join(ROOT, 'models', 'tiny')

test('verify needs no weights in the model folder', async () => {
  const [data, model] = [join(folder(), 'data'), join(folder(), 'tiny')]
  mkdirSync(model)
  for (const name of readdirSync(TINY).filter((one) => /\.json$|\.jinja$/.test(one)))
    cpSync(join(TINY, name), join(model, name))
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  const { id: _, ...record } = encodeEvent({
    type: 'LineStarted',
    prev: '',
    policy: 'policy',
    mode: 'live',
    base: { name: 'tiny', sha256: '9'.repeat(64) },
    parent: null,
    settings: {},
    at: 1,
  })
  await log.append([record])
  await log.close()
  const env = { INSTAR_DATA: data, INSTAR_MODEL: model }
  const { code, json, err } = await instar(['verify', '--json'], env)
  equal(code, 0, err)
  deepEqual(json, {
    ok: true,
    policy: 'policy',
    batches: [],
    proves: {},
    first: null,
    unreadable: { records: 0, first: [] },
  })
  match((await instar(['verify'], env)).out, /no difference: 0 batches/)
  const recomputed = await instar(['verify', '--recompute'], env)
  equal(recomputed.code, 1)
  match(recomputed.err, /not_available: --recompute computes on a training server, and INSTAR_TRAINER names none/)
})
