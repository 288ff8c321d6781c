/** An adapter that peft wrote gives PyTorch's log-probs; whatever is not exactly ours is refused. */
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { InstarError } from '@instar/events/errors'
import { startLearning } from '../learn/engine.ts'
import { hashCheckpoint } from './open.ts'
import { readPeftFolder, tensorsDigest } from './peft-folder.ts'
import { readSafetensors, writeSafetensors, type Tensor } from './safetensors.ts'

const GOLDEN = fileURLToPath(new URL('../../../../test/kit/golden/peft', import.meta.url))
const MODEL = fileURLToPath(new URL('../../../../models/tiny', import.meta.url))
const base = await hashCheckpoint(MODEL)
type Row = { prompt: number[]; completion: number[]; adapter: number[]; base: number[] }

const scratch = mkdtempSync(path.join(tmpdir(), 'instar-peft-'))
after(() => rmSync(scratch, { recursive: true, force: true }))
let copies = 0
/** A copy of the fixture, with its config and tensors changed. */
const changed = (
  config: Readonly<Record<string, unknown>>,
  tensors: (all: Map<string, Tensor>) => void = () => undefined,
): string => {
  const folder = path.join(scratch, `copy-${(copies += 1)}`)
  cpSync(path.join(GOLDEN, 'adapter'), folder, { recursive: true })
  const file = path.join(folder, 'adapter_config.json')
  writeFileSync(file, JSON.stringify({ ...(JSON.parse(readFileSync(file, 'utf8')) as object), ...config }))
  const weights = path.join(folder, 'adapter_model.safetensors')
  const all = readSafetensors(readFileSync(weights))
  tensors(all)
  writeFileSync(weights, writeSafetensors(all))
  return folder
}
const read = (folder: string) => readPeftFolder(folder, { model: MODEL, base })
const refused = (folder: string, message: RegExp): void =>
  assert.throws(
    () => read(folder),
    (error) => error instanceof InstarError && error.code === 'bad_checkpoint' && message.test(error.message),
    String(message),
  )

test('the log-probs under an adapter that peft wrote are those of PyTorch with peft', async () => {
  const rows = JSON.parse(readFileSync(path.join(GOLDEN, 'logprobs.json'), 'utf8')) as Row[]
  const { adapter, ...found } = read(path.join(GOLDEN, 'adapter'))
  assert.deepEqual(
    [found.rank, found.alpha, found.targets, found.tensorCount, found.baseModel, found.source],
    [4, 10, ['down_proj', 'q_proj', 'v_proj'], 24, 'instar/tiny', 'adapter'],
  )
  const engine = await startLearning({ model: MODEL, engine: 'onnx', threads: 1 })
  try {
    await engine.load(adapter)
    let [largest, moved] = [0, 0]
    for (const { prompt, completion, ...expected } of rows)
      for (const [under, sha256] of [
        ['adapter', adapter.sha256],
        ['base', null],
      ] as const) {
        const own = await engine.score({ prompt, completion, adapter: sha256, temperature: 1 })
        own.forEach((value, at) => {
          largest = Math.max(largest, Math.abs(value - expected[under][at]!))
          moved = Math.max(moved, Math.abs(expected.adapter[at]! - expected.base[at]!))
        })
      }
    assert.ok(moved > 0.1, `the adapter moves a log-prob by ${moved}`)
    assert.ok(largest < 2e-5, `largest difference ${largest}`)
  } finally {
    await engine.close()
  }
})

test('the stored weights have the tensors of the folder, in half precision too', () => {
  const file = path.join(GOLDEN, 'adapter', 'adapter_model.safetensors')
  const { adapter, tensors } = read(path.join(GOLDEN, 'adapter'))
  assert.equal(tensors, tensorsDigest(readFileSync(file)).digest)
  assert.equal(tensors, tensorsDigest(adapter.weights).digest)
  const half = changed({}, (all) => {
    for (const [name, { shape, data }] of all) all.set(name, { dtype: 'BF16', shape, data })
  })
  const bytes = readFileSync(path.join(half, 'adapter_model.safetensors'))
  assert.equal(read(half).tensors, tensorsDigest(bytes).digest)
  assert.notEqual(read(half).tensors, tensors)
})

test('an option that changes the computation is refused by its name', () => {
  for (const [field, value] of Object.entries({
    use_dora: true,
    use_rslora: true,
    bias: 'lora_only',
    modules_to_save: ['lm_head'],
    rank_pattern: { q_proj: 8 },
    alpha_pattern: { q_proj: 8 },
    layer_replication: [[0, 4]],
    lora_bias: true,
    trainable_token_indices: [1],
    alora_invocation_tokens: [1],
    use_qalora: true,
    target_parameters: ['x'],
    init_lora_weights: 'pissa_niter_4',
    fan_in_fan_out: true,
  }))
    refused(changed({ [field]: value }), new RegExp(field))
  refused(changed({ peft_type: 'IA3' }), /peft_type/)
})

test('an adapter of another model, with other tensors or with values that are not finite is refused', () => {
  const Q = 'base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight'
  refused(changed({ base_model_name_or_path: '0'.repeat(64) }), /is for the base model 0{64}/)
  refused(changed({ r: 8 }), /the model requires \[8, 160\]/)
  refused(
    changed({}, (all) => all.set(Q, { dtype: 'F32', shape: [4, 128], data: new Float32Array(512) })),
    /\[4, 128\]; the model requires \[4, 160\]/,
  )
  refused(
    changed({}, (all) => all.get(Q)!.data.fill(NaN as never)),
    /not finite/,
  )
  refused(
    changed({}, (all) => all.delete(Q)),
    /is missing/,
  )
  refused(
    changed({}, (all) => all.set(Q.replace('layers.0', 'layers.4'), all.get(Q)!)),
    /belongs to no projection/,
  )
  refused(
    changed({}, (all) => {
      for (const name of all.keys()) if (name.includes('down_proj')) all.delete(name)
    }),
    /target_modules and the tensors differ in down_proj/,
  )
  refused(path.join(GOLDEN, 'none'), /is not a folder/)
  const bare = changed({})
  rmSync(path.join(bare, 'adapter_model.safetensors'))
  refused(bare, /adapter_model.safetensors: is missing/)
  writeFileSync(path.join(bare, 'adapter_model.bin'), '')
  refused(bare, /adapter_model.bin is not read/)
})
