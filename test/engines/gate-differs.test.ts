/** The gate on servers that serve another base, load no candidate, or cannot measure. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, afterEach, test } from 'node:test'
import { CONFIG, writeRandomModel } from '../kit/random-model.ts'
import { GateRig } from './gate-rig.ts'

const rig = new GateRig()
afterEach(() => rig.stop())
after(() => rig.remove())

test('one of two servers that serves another base: not published, and the console names it', async () => {
  await rig.serve([rig.model, writeRandomModel(join(rig.folder, 'other'), { ...CONFIG, rmsEps: 1e-3 })])
  await rig.start('base')
  const verdict = await rig.verdict()
  assert.ok(verdict.type === 'VersionRejected' && verdict.reason === 'serving_differs')
  const { figures } = verdict
  assert.ok(figures.serving_base! < 1e-4 && figures.serving_difference! > figures.serving_limit!)
  const warned = rig.said.filter((line) => line.includes('serving_differs'))
  assert.equal(warned.length, 1, rig.said.join('\n'))
  assert.ok(warned[0]!.includes(rig.servers[1]!.url))
})

test('a server that loads no candidate: not published after three attempts', async () => {
  await rig.serve()
  rig.servers[0]!.behaviour = { say: () => '', refusesLoad: 'LoRA rank 8 is greater than max_lora_rank 4.' }
  await rig.start('refused')
  const verdict = await rig.verdict()
  assert.ok(verdict.type === 'VersionRejected' && verdict.reason === 'serving_differs')
  assert.equal(rig.servers[0]!.loads.length, 3)
})

test('servers that cannot measure: the embedded model does, and the console says so', async () => {
  await rig.serve()
  rig.servers[0]!.ignoresNamedIds = true
  await rig.start('older')
  assert.ok(
    rig.said.some((line) =>
      /^The gate measures with the embedded model, not through vllm\+.*logprob_token_ids/.test(line),
    ),
    rig.said.join('\n'),
  )
  const { type, figures, limits } = await rig.verdict()
  assert.equal(type, 'VersionPublished')
  assert.equal(figures.kl_top, undefined)
  assert.equal(limits!['remote.concurrency'], undefined)
})
