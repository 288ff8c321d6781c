/**
 * The gate on the servers that serve: verdicts, and a server that does not answer with the adapter that was trained.
 */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, test } from 'node:test'
import type { VersionPublished } from '@instar/events'
import { checkCandidate, type Figures, type Thresholds } from '@instar/publisher'
import { candidatesAt, GateRig } from './gate-rig.ts'
import { scaledAlpha } from './scaled-alpha.ts'

const rig = new GateRig()
afterEach(() => rig.stop())
after(() => rig.remove())

test('candidates are measured through the servers, beside the served version, and verdicts follow from the record', async () => {
  await rig.serve([rig.model, rig.model])
  await rig.start('through')
  await rig.verdict()
  await rig.converse(4)
  await rig.running.settled()
  const { started, verdicts } = await rig.line()
  assert.ok(started.settings.length_fixed! > 0 && started.settings.entropy_fixed! > 0)
  assert.equal(verdicts.length, 2)
  for (const { type, figures, limits } of verdicts) {
    assert.equal(figures.kl_top, 16)
    assert.ok(figures.kl_parent! > 0 && figures.kl_parent_error! > 0, JSON.stringify(figures))
    // The trainer's engine and both servers agree in float32.
    assert.equal(figures.serving_replicas, 2)
    assert.ok(figures.serving_difference! < 1e-4 && figures.serving_limit! >= 1e-4, JSON.stringify(figures))
    assert.ok(figures.serving_tokens! >= 2 * 4)
    assert.equal(limits!['remote.concurrency'], 4)
    const again = checkCandidate(figures as unknown as Figures, null, limits as unknown as Thresholds)
    assert.deepEqual(again, { accepted: true })
    assert.equal(type, 'VersionPublished')
  }
  assert.ok(verdicts[1]!.figures.kl_base! > 0 && verdicts[1]!.figures.kl_base !== verdicts[1]!.figures.kl_parent)
  for (const server of rig.servers) {
    assert.deepEqual(candidatesAt(server), [])
    const names = server.loads.filter((name) => name.startsWith('instar-gate-'))
    assert.equal(new Set(names).size, 2, names.join())
    assert.ok(server.loaded.has(`instar-${(verdicts[1] as VersionPublished).adapter.slice(0, 32)}`))
  }
  assert.deepEqual(readdirSync(join(rig.folder, 'through/adapters/gate')), [])
})

test('a server that applies another scale than the trained one: not published', async () => {
  await rig.serve()
  rig.servers[0]!.distort = scaledAlpha(2)
  await rig.start('alpha')
  const verdict = await rig.verdict()
  assert.ok(verdict.type === 'VersionRejected' && verdict.reason === 'serving_differs')
  const { figures } = verdict
  assert.ok(figures.serving_difference! > 10 * figures.serving_limit!, JSON.stringify(figures))
  const warned = rig.said.filter((line) => line.includes('serving_differs: log-probs of http://127.0.0.1'))
  assert.equal(warned.length, 1, rig.said.join('\n'))
  assert.deepEqual(candidatesAt(rig.servers[0]!), [])
})
