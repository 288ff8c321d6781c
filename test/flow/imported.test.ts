/** A line that starts with an adapter of PEFT: served, trained further, verified, replayed, rolled back. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { adapterDistance, readPeftFolder } from '@instar/policy'
import { getBlob } from '@instar/log'
import { ROOT } from '../../tools/tree.ts'
import { ask, question, sessions } from '../kit/people.ts'
import { dataFolder, done, instar, serves, sql, up, type Up } from './process.ts'
import { BATCH, witness, type Witness } from './witness.ts'

const ADAPTER = join(ROOT, 'test/kit/golden/peft/adapter')
const PATIENCE = 6

type Listed = { version: number; status: string; sha256: string | null; why: string }

describe('a line that starts with an adapter from elsewhere', { timeout: 200_000 }, () => {
  const data = dataFolder()
  let pipeline: Up
  let seen: Witness
  let where: { data: string; url?: string }
  let talks = 0

  before(async () => {
    pipeline = await up(data, { INSTAR_BASE_ADAPTER: ADAPTER })
    where = { data, url: pipeline.ready.url }
    seen = await witness(data)
  })
  after(() => seen.stop())

  const imported = () => seen.line.started!.imported!
  const teach = async (behind: number): Promise<number> => {
    for (let wave = 0; wave < PATIENCE; wave += 1) {
      await sessions(pipeline.client, talks, BATCH)
      talks += BATCH
      await seen.learned()
      const newest = Math.max(...seen.line.versions.keys())
      if (newest > behind) return newest
    }
    throw new Error(`the gate rejected ${PATIENCE} batches: ${seen.summary()}`)
  }

  test('version 0 is the base with the adapter, and answers', async () => {
    const model = { model: join(ROOT, 'models/tiny'), base: seen.line.started!.base.sha256 }
    const read = readPeftFolder(ADAPTER, model)
    const { adapter, tensors, tensorCount, rank, alpha, source } = imported()
    deepEqual(
      { adapter, tensors, tensorCount, rank, alpha, source },
      { adapter: read.adapter.sha256, tensors: read.tensors, tensorCount: 24, rank: 4, alpha: 10, source: 'adapter' },
    )
    equal(seen.line.versions.get(0)!.adapter, adapter)
    const answer = await ask(pipeline.client, [{ role: 'user', content: question(1) }])
    equal(answer.version, 0)
    const turn = await seen.until('the turn', () =>
      seen.events('TurnCaptured').find(({ turn: id }) => id === answer.turn),
    )
    equal(turn.adapter, adapter)
  })

  test('the first update continues the adapter, with its rank, and the gate measures against it', async () => {
    const version = await teach(0)
    await serves(pipeline, version)
    const published = seen.line.versions.get(version)!
    const { started } = seen.line
    const weights = await getBlob(seen.log, published.adapter!, published.blobsAt)
    const distance = adapterDistance(weights, await getBlob(seen.log, imported().adapter, started!.at))
    equal(distance, Infinity, 'an update has matrices for all projections')
    const [first] = seen.chain.batches.filter(({ update }) => update !== null)
    deepEqual({ ...first!.sealed.parent }, { version: 0, adapter: imported().adapter, state: null })
    const { klBase, klParent } = first!.update!.event.figures
    equal(klBase, klParent, 'the base of the KL is the imported adapter')
    const gate = seen.events('VersionPublished')[0]!.figures
    ok(gate['kl_base']! < 0.25)
    if (published.parent === 0) equal(gate['kl_base'], gate['kl_parent'])
  })

  test('versions, show and SQL name the import', async () => {
    const listed = await done<Listed[]>(where, 'versions')
    deepEqual([listed[0]!.why, listed[0]!.sha256], ['imported', imported().adapter])
    const shown = await done<{ imported: { tensors: string } | null; why: string }>(where, 'show', '0')
    deepEqual([shown.why, shown.imported!.tensors], ['imported', imported().tensors])
    match(
      (await instar(where, 'show', '0')).out,
      /imported from adapter: rank 4, alpha 10, 24 tensors \(down_proj, q_proj, v_proj\)/,
    )
    equal((await done<{ imported: unknown }>(where, 'show', '1')).imported, null)
    await seen.projected(data)
    deepEqual(await sql(where, 'select why, sha256, adapter_bytes from versions where version = 0'), [
      { why: 'imported', sha256: imported().adapter, adapter_bytes: imported().adapterBytes },
    ])
  })

  test('a rollback to version 0 serves the adapter, and the next update continues it', async () => {
    const newest = Math.max(...seen.line.versions.keys())
    await done(where, 'rollback', '0')
    const answer = await ask(pipeline.client, [{ role: 'user', content: question(2) }])
    const turn = await seen.until('the turn', () =>
      seen.events('TurnCaptured').find(({ turn: id }) => id === answer.turn),
    )
    deepEqual([turn.version, turn.adapter], [0, imported().adapter])
    await done(where, 'thaw')
    const next = await teach(newest)
    equal(seen.line.versions.get(newest + 1)!.parent, 0)
    await serves(pipeline, next)
  })

  test('verify and a replay compute every update again from the adapter, bit for bit', async () => {
    const verified = await done<{ ok: boolean; batches: { mode: string }[] }>(where, 'verify', 'all')
    equal(verified.ok, true)
    ok(verified.batches.some(({ mode }) => mode === 'recompute'))
    const replayed = await done<{ equal: boolean | null; batches: number }>(where, 'replay', '--branch', 'again')
    equal(replayed.equal, true)
  })

  test('a start without the variable continues the line', async () => {
    equal(await pipeline.stop(), 0)
    const again = await up(data)
    await serves(again, seen.line.head)
    equal((await ask(again.client, [{ role: 'user', content: question(1) }], { model: 'policy@0' })).version, 0)
    equal(await again.stop(), 0)
  })
})
