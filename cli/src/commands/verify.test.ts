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

/** A line of a model that is not here. */
const startLine = async (data: string): Promise<void> => {
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
}

test('verify needs no weights in the model folder', async () => {
  const [data, model] = [join(folder(), 'data'), join(folder(), 'tiny')]
  mkdirSync(model)
  for (const name of readdirSync(TINY).filter((one) => /\.json$|\.jinja$/.test(one)))
    cpSync(join(TINY, name), join(model, name))
  await startLine(data)
  const env = { INSTAR_DATA: data, INSTAR_MODEL: model }
  const { code, json, err } = await instar(['verify', '--json'], env)
  equal(code, 0, err)
  match(err, /^fold +weights +█+ 100% +1 records, /m)
  deepEqual(json, {
    ok: true,
    policy: 'policy',
    batches: [],
    proves: {},
    first: null,
    unreadable: { records: 0, first: [] },
    trusted: null,
  })
  match((await instar(['verify'], env)).out, /no difference: 0 batches/)
  const recomputed = await instar(['verify', '--recompute'], env)
  equal(recomputed.code, 1)
  match(recomputed.err, /not_available: --recompute computes on a training server, and INSTAR_TRAINER names none/)
})

test('verify with another model than the line’s says so, unless it computes nothing', async () => {
  const data = join(folder(), 'data')
  await startLine(data)
  const env = { INSTAR_DATA: data, INSTAR_MODEL: TINY }
  const { code, err } = await instar(['verify'], env)
  equal(code, 1)
  match(err, /^instar verify: other_base: .*99999/m)
  equal((await instar(['verify', '--digests'], env)).code, 0)
})
