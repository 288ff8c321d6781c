/** The client's bytes and readings against what a real SkyRL and the official SDK said (README.md). */
import { DEFAULT_WIRE, forwardBackwardRequests, forwardRequests, optimStepRequest } from '@instar/tinker'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { adapterOf, CONFIG_FILE, WEIGHTS_FILE } from '../../../packages/tinker/src/core/adapter.ts'
import { isSavedBefore, refusal } from '../../../packages/tinker/src/core/refusals.ts'
import { resultOf } from '../../../packages/tinker/src/core/results.ts'
import { readTar } from '../../../packages/tinker/src/core/tar.ts'
import { bytesOf, exchanges, type Exchange } from './exchanges.ts'

const SDK = exchanges('skyrl-0.4.0.jsonl')
const RESTARTED = exchanges('skyrl-0.4.0-restarted.jsonl')
const MODEL = 'model_78a08cfd'
const ROWS = [
  [5, 9, 17, 33, 41, 8, 60],
  [7, 12, 90, 4],
].map((ids) => ({ tokens: ids.slice(0, -1), targets: ids.slice(1) }))
/** As SkyRL's forward gave them, printed by Python. */
const BASE = [
  [
    -6.387804985046387, -5.605982780456543, -6.591699600219727, -6.4053053855896, -6.028877258300781,
    -5.455377101898193,
  ],
  [-6.751334190368652, -5.95625114440918, -5.392075061798096],
]
const TRAINED = [
  [
    -5.7512407302856445, -5.544793128967285, -5.89302921295166, -5.681457042694092, -4.709163665771484,
    -4.496481895446777,
  ],
  [-5.593859672546387, -5.620486259460449, -5.917101860046387],
]
const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, gradClipNorm: 0 }

const of = (scene: string, path: string, status = 200): Exchange => {
  const found = SDK.filter((one) => one.scene === scene && one.path.endsWith(path) && one.status === status)
  assert.ok(found.length > 0, `${scene}: ${path}`)
  return found[0]!
}
const result = (scene: string): Exchange => of(scene, 'retrieve_future')
const json = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder().decode(bytes))

const trainRows = ROWS.map((row, index) => ({
  ...row,
  logprobs: BASE[index]!,
  advantages: row.targets.map((_, at) => (index === 0 ? 1 : -0.5) * (at + 1)),
}))

test('a forward has the bytes of the official SDK, and its answer the log-probs that the SDK read', () => {
  const [request] = forwardRequests(DEFAULT_WIRE, MODEL, 1, ROWS)
  const sent = of('forward cross_entropy', 'forward_backward')
  assert.equal(Buffer.from(request!.bytes).toString('hex'), bytesOf(sent.request).toString('hex'))
  assert.equal(sent.type, request!.contentType)
  for (const [scene, expected] of [
    ['forward cross_entropy', BASE],
    ['forward of the trained model', TRAINED],
    ['load_weights', TRAINED],
  ] as const) {
    const answer = SDK.filter((one) => one.scene === scene && one.answered === 'application/x-protobuf').at(-1)!
    const { logprobs } = resultOf(request!, bytesOf(answer.response), answer.answered)
    assert.deepEqual(
      logprobs.map((row) => [...row]),
      expected,
    )
  }
})

test('a pass of importance sampling has the bytes of the SDK but for the order of the inputs; a step is the same JSON', () => {
  const scene = 'forward_backward importance_sampling and optim_step'
  const [request] = forwardBackwardRequests(DEFAULT_WIRE, MODEL, 2, trainRows)
  const sent = bytesOf(of(scene, 'forward_backward').request)
  const sorted = (bytes: Uint8Array): string[] => [...Buffer.from(bytes).toString('latin1')].sort()
  assert.deepEqual(sorted(request!.bytes), sorted(sent))
  const answer = SDK.find((one) => one.scene === scene && one.answered === 'application/x-protobuf')!
  // The pass with gradients is another program than the forward: its log-probs differ in the last bit.
  const { logprobs } = resultOf(request!, bytesOf(answer.response), answer.answered)
  const apart = logprobs.flatMap((row, index) => [...row].map((one, at) => Math.abs(one - BASE[index]![at]!)))
  assert.equal(apart.length, 9)
  assert.ok(Math.max(...apart) <= 5e-7, String(apart))
  const step = optimStepRequest(MODEL, 3, ADAM)
  assert.deepEqual(json(step.bytes), json(bytesOf(of(scene, 'optim_step').request)))
  const stepped = SDK.filter((one) => one.scene === scene && one.path.endsWith('retrieve_future')).at(-1)!
  assert.equal(resultOf(step, bytesOf(stepped.response), stepped.answered).gradNorm, 44.11581802368164)
})

test("SkyRL's archive has an entry without a name and a config without modules; the adapter's come from its tensors", () => {
  const archive = of('archive', '/download')
  const files = readTar(gunzipSync(bytesOf(archive.response)), [WEIGHTS_FILE, CONFIG_FILE])
  const config = json(files.find(({ name }) => name === CONFIG_FILE)!.bytes) as Record<string, unknown>
  assert.deepEqual([config['target_modules'], config['lora_alpha'], config['r']], [null, 32, 2])
  const adapter = adapterOf(files, 'archive', 'tiny')
  assert.deepEqual(
    [adapter.rank, adapter.alpha, adapter.tensors, adapter.targets.join(' ')],
    [2, 32, 28, 'down_proj gate_proj k_proj o_proj q_proj up_proj v_proj'],
  )
  assert.match(of('archive', '/archive', 302).location!, /^http:\/\/server\/api\/v1\/training_runs\/.*\/download$/)
})

test('the same seq and body has the same future; what SkyRL refuses has the code that the trainer acts on', () => {
  const twice = SDK.filter((one) => one.scene === 'the same seq and body twice' && one.path.endsWith('optim_step'))
  assert.deepEqual(json(bytesOf(twice[0]!.response)), json(bytesOf(twice[1]!.response)))
  const code = (exchange: Exchange): string =>
    refusal('http://server', 'it', exchange.status, bytesOf(exchange.response).toString()).code
  assert.deepEqual(
    [
      code(of('the same seq and another body', 'optim_step', 409)),
      code(of('load_weights of a used model', 'load_weights', 400)),
      code(of('load_weights of a state that is not there', 'load_weights', 404)),
      code(of('an unknown loss', 'forward_backward', 422)),
      code(of('an unknown model', 'optim_step', 404)),
    ],
    ['trainer_seq_used', 'trainer_model_lost', 'trainer_state_lost', 'trainer_refused', 'trainer_model_lost'],
  )
  for (const path of ['save_weights', 'save_weights_for_sampler']) {
    const { status, response } = of('save under a used name', path, 409)
    assert.equal(isSavedBefore(status, bytesOf(response).toString()), true)
  }
  const repeated = of('save_weights repeated with its seq', 'save_weights', 409)
  assert.equal(isSavedBefore(repeated.status, bytesOf(repeated.response).toString()), true)
})

test('SkyRL fills up advantages that are one too short, without a word', () => {
  assert.equal(of('advantages one element short', 'forward_backward').status, 200)
  assert.equal(result('advantages one element short').answered, 'application/x-protobuf')
})

test('after a restart SkyRL has lost the model, knows the requests that were answered, and gives the state bit for bit', () => {
  const polled = (scene: string): Exchange =>
    RESTARTED.filter((one) => one.scene === scene && one.path.endsWith('retrieve_future')).at(-1)!
  const lost = polled('after a restart: the old model')
  assert.equal(
    refusal('http://server', 'it', lost.status, bytesOf(lost.response).toString()).code,
    'trainer_model_lost',
  )
  assert.equal(polled('after a restart: a repeat of a request that was answered').status, 200)
  const [request] = forwardRequests(DEFAULT_WIRE, MODEL, 1, ROWS)
  const scored = polled('after a restart: the state in a new model')
  assert.deepEqual(
    resultOf(request!, bytesOf(scored.response), scored.answered).logprobs.map((row) => [...row]),
    TRAINED,
  )
  const full = polled('more models than there is room for')
  assert.equal(refusal('http://server', 'it', full.status, bytesOf(full.response).toString()).code, 'trainer_full')
})
