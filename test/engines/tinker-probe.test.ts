/** What the probe of packages/tinker finds out about servers that deviate. */
import { capabilitiesMap, connectTrainer, type Capabilities, type Limits } from '@instar/tinker'
import type { InstarError } from '@instar/events/errors'
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { ScriptedTinker, type TinkerBehaviour } from './scripted-tinker.ts'

const PROJECTIONS = ['down_proj', 'gate_proj', 'k_proj', 'o_proj', 'q_proj', 'up_proj', 'v_proj']

const probe = async (
  t: TestContext,
  behaviour: TinkerBehaviour,
  limits: Partial<Limits> = {},
): Promise<{ found: Capabilities; scripted: ScriptedTinker }> => {
  const scripted = await new ScriptedTinker(behaviour).start()
  t.after(() => scripted.kill())
  const server = await connectTrainer(scripted.url, { key: behaviour.key ?? null, limits })
  t.after(() => server.close())
  return { found: await server.probe('base', 4), scripted }
}

test('the probe of a server as SkyRL 0.4.0 on JAX', async (t) => {
  const { found, scripted } = await probe(t, {})
  assert.deepEqual(found, {
    product: 'skyrl',
    version: null,
    wire: { format: 'protobuf', rowsMax: 1024, bytesMax: 5_000_000, adapters: 'archive' },
    models: ['base'],
    contextLength: null,
    reduction: 'sequence_mean',
    gradClip: false,
    gradNorm: true,
    losses: ['cispo', 'cross_entropy', 'importance_sampling', 'ppo'],
    alpha: 32,
    targets: PROJECTIONS,
    promptLogprobs: 'without_first',
    samplerPath: 'plain',
    repeatable: true,
    checksLengths: false,
    resumes: true,
    keepsGradients: true,
    sharesPrefixes: true,
    requiresKey: false,
  } satisfies Capabilities)
  assert.deepEqual(
    [...scripted.models.values()].filter(({ loaded }) => loaded),
    [],
  )
  assert.equal(scripted.checkpoints.size, 0)
  assert.equal(capabilitiesMap(found)['targets'], PROJECTIONS.join(' '))
})

test('the probe of a server as the hosted one', async (t) => {
  const { found } = await probe(t, {
    reduction: 'sum',
    gradClip: true,
    withoutGradNorm: true,
    checksLengths: true,
    samplerPath: 'typed',
    alpha: 16,
    promptLogprobs: 'full',
    losses: ['cross_entropy', 'importance_sampling', 'ppo', 'cispo', 'dro'],
    key: 'tml-1',
    adapters: 'external_weights',
    inOrder: true,
    hostedFailures: true,
    clearsGradients: true,
    modelEntry: { max_context_length: 32_768 },
  })
  assert.equal(found.contextLength, 32_768)
  assert.equal(found.reduction, 'sum')
  assert.equal(found.gradClip, true)
  assert.equal(found.gradNorm, false)
  assert.equal(found.checksLengths, true)
  assert.equal(found.samplerPath, 'typed')
  assert.equal(found.alpha, 16)
  assert.equal(found.promptLogprobs, 'full')
  assert.equal(found.requiresKey, true)
  assert.equal(found.keepsGradients, false)
  assert.equal(found.wire.adapters, 'external_weights')
  assert.deepEqual(found.losses, ['cispo', 'cross_entropy', 'dro', 'importance_sampling', 'ppo'])
})

test('the probe of an older server: JSON, mean over tokens, repeated requests run again', async (t) => {
  const { found } = await probe(t, {
    format: 'json',
    reduction: 'token_mean',
    notRepeatable: true,
    promptLogprobs: 'none',
  })
  assert.equal(found.wire.format, 'json')
  assert.equal(found.reduction, 'token_mean')
  assert.equal(found.repeatable, false)
  assert.equal(found.promptLogprobs, 'none')
})

test('a server whose longer rows have other log-probs gets each turn in a row of its own', async (t) => {
  const { found } = await probe(t, {
    logprobs: (rows) => rows.map((row) => row.map((value) => value - 0.01 * row.length)),
  })
  assert.equal(found.sharesPrefixes, false)
  assert.equal(found.reduction, 'sequence_mean')
})

test('a server that sends log-probs in bfloat16: reduction and kept gradients come from the norms that it reports', async (t) => {
  for (const reduction of ['sequence_mean', 'token_mean', 'sum'] as const)
    for (const clearsGradients of [false, true]) {
      const { found } = await probe(t, {
        reduction,
        clearsGradients,
        // Between 4 and 8 nats bfloat16 has a value each 1/32.
        logprobs: (rows) => rows.map((row) => row.map((value) => Math.round(value * 32) / 32)),
      })
      assert.deepEqual([found.reduction, found.keepsGradients], [reduction, !clearsGradients])
    }
})

for (const [what, config] of [
  ['and states it', { fwdbwd_max_chunk_len: 1 }],
  ['and states nothing', undefined],
] as const)
  test(`a server that takes one row a request, ${what}, is probed with one`, async (t) => {
    for (const reduction of ['sequence_mean', 'token_mean', 'sum'] as const) {
      const { found, scripted } = await probe(t, { rowsMax: 1, reduction, ...(config ? { config } : {}) })
      assert.deepEqual(
        [found.reduction, found.wire.rowsMax, found.repeatable, found.resumes, found.sharesPrefixes],
        [reduction, 1, true, true, true],
      )
      assert.deepEqual(
        [...scripted.models.values()].filter(({ loaded }) => loaded),
        [],
      )
    }
  })

test('a server that refuses every pass keeps the rows that it states, and the first refusal is told', async (t) => {
  const scripted = await new ScriptedTinker({ rowsMax: 0 }).start()
  t.after(() => scripted.kill())
  const server = await connectTrainer(scripted.url, { key: null })
  t.after(() => server.close())
  await assert.rejects(server.probe('base', 4), { code: 'trainer_refused', message: /Too many rows/ })
  assert.equal(server.wire.rowsMax, 1024)
})

test('a server that ignores what it is trained on is trainer_mismatch, and keeps no model of the probe', async (t) => {
  const scripted = await new ScriptedTinker().start()
  t.after(() => scripted.kill())
  const server = await connectTrainer(scripted.url, { key: null })
  t.after(() => server.close())
  scripted.behaviour.logprobs = (rows) => rows.map((row) => row.map(() => -1))
  await assert.rejects(server.probe('base', 4), (error: InstarError) => {
    assert.equal(error.code, 'trainer_mismatch')
    return true
  })
  assert.deepEqual(
    [...scripted.models.values()].filter(({ loaded }) => loaded),
    [],
  )
})

test('a connection without a key that ends without a response refuses requests without a key', async (t) => {
  const { found } = await probe(t, {
    key: 'k',
    cut: ({ path, headers }) => path === '/api/v1/get_server_capabilities' && headers['x-api-key'] === undefined,
    admit: ({ headers }) => (headers['x-api-key'] === undefined ? { status: 200 } : null),
  })
  assert.equal(found.requiresKey, true)
})

for (const [what, reply] of [
  ['is not answered within the limit', () => new Promise<null>(() => undefined)],
  ['meets a busy server', () => ({ status: 503 })],
] as const)
  test(`a request without a key that ${what} says nothing about keys`, { timeout: 20_000 }, async (t) => {
    const admit: TinkerBehaviour['admit'] = ({ headers }) => (headers['x-api-key'] === undefined ? reply() : null)
    const { found } = await probe(t, { key: 'k', admit }, { answerMs: 1000 })
    assert.equal(found.requiresKey, null)
  })

test('a sample that is no protobuf message has no log-probs of the prompt', async (t) => {
  const { found } = await probe(t, {
    retrieve: ({ kind }) =>
      kind === 'sample'
        ? { status: 200, body: Buffer.from('0b', 'hex'), headers: { 'content-type': 'application/x-protobuf' } }
        : null,
  })
  assert.equal(found.promptLogprobs, 'none')
})
