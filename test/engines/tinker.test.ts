/** The client of packages/tinker against the scripted server, over HTTP. */
import { connectTrainer, rowFactor, type Limits, type TrainingServer, type TrainRow } from '@instar/tinker'
import type { InstarError } from '@instar/events/errors'
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { ScriptedTinker, type TinkerBehaviour } from './scripted-tinker.ts'
import { Base, BigramLora } from './tinker-bigram.ts'

const QUICK: Partial<Limits> = { submitMs: 10_000, resultMs: 20_000 }
const ADAM = { learningRate: 0.05, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, gradClipNorm: 0 }
const ROWS = [
  { tokens: [1, 2, 3, 4], targets: [2, 3, 4, 5] },
  { tokens: [9, 8], targets: [8, 7] },
]
const trainRows = (logprobs: readonly Float32Array[], factor: (row: number) => number = () => 1): TrainRow[] =>
  ROWS.map((row, index) => ({
    ...row,
    logprobs: [...(logprobs[index] ?? [])],
    advantages: row.targets.map((_, at) => (index === 0 ? 1 : -0.5) * (at + 1) * factor(index)),
  }))

type Rig = { scripted: ScriptedTinker; server: TrainingServer; session: string; model: string }

const start = async (t: TestContext, behaviour: TinkerBehaviour = {}, limits: Partial<Limits> = {}): Promise<Rig> => {
  const scripted = await new ScriptedTinker(behaviour).start()
  t.after(() => scripted.kill())
  const key = behaviour.key ?? null
  const server = await connectTrainer(`tinker+${scripted.url}`, { key, limits: { ...QUICK, ...limits } })
  t.after(() => server.close())
  const session = await server.openSession()
  const { model } = await server.createModel(session, { base: 'base', rank: 4, seed: 3, modelSeq: 0 })
  return { scripted, server, session, model }
}

const code = (expected: string) => (error: InstarError) => {
  assert.equal(error.code, expected, error.message)
  return true
}

/** Two steps; the log-probs before, between and after. */
const train = async ({ server, model }: Rig, factor?: (row: number) => number): Promise<Float32Array[][]> => {
  const seen: Float32Array[][] = []
  let seq = 1
  for (let step = 0; step < 2; step++) {
    const [forward] = server.prepareForward(model, seq, ROWS)
    const { result } = await server.send(forward!)
    seen.push(result.logprobs)
    const [pass] = server.prepareForwardBackward(model, seq + 1, trainRows(result.logprobs, factor))
    const optim = server.prepareOptimStep(model, seq + 2, ADAM)
    await Promise.all([server.send(pass!), server.send(optim)])
    seq += 3
  }
  const [last] = server.prepareForward(model, seq, ROWS)
  seen.push((await server.send(last!)).result.logprobs)
  return seen
}

/** What `train` must give, by the bigram alone. */
const expected = (): number[][][] => {
  const lora = new BigramLora(new Base('base', 64), 4, 32, 3)
  const seen: number[][][] = []
  const { learningRate: rate, beta1, beta2, epsilon } = ADAM
  for (let step = 0; step < 2; step++) {
    const before = ROWS.map(({ tokens, targets }) => lora.logprobs(tokens, targets))
    seen.push(before)
    const { advantages } = {
      advantages: trainRows(before.map((row) => Float32Array.from(row))).map((row) => row.advantages),
    }
    lora.backward(
      ROWS.map((row, index) => ({ ...row, slope: (_: number, at: number) => -(advantages[index]?.[at] ?? 0) })),
      'sum',
    )
    lora.step({ rate, beta1, beta2, epsilon, decay: 0, clip: 0 }, 'sum')
  }
  seen.push(ROWS.map(({ tokens, targets }) => lora.logprobs(tokens, targets)))
  return seen
}

const assertNear = (found: readonly Float32Array[][], wanted: readonly number[][][], tolerance: number): void => {
  for (const [step, rows] of wanted.entries())
    for (const [row, values] of rows.entries())
      for (const [at, value] of values.entries())
        assert.ok(
          Math.abs((found[step]?.[row]?.[at] ?? Number.NaN) - value) < tolerance,
          `step ${step}, row ${row}, target ${at}: ${found[step]?.[row]?.[at]}, not ${value}`,
        )
}

const formats: TinkerBehaviour[] = [
  { format: 'protobuf', reduction: 'sum' },
  { format: 'json', reduction: 'sum' },
]
for (const behaviour of formats)
  test(`two steps by ${behaviour.format} give the log-probs of the same arithmetic without a wire`, async (t) => {
    const rig = await start(t, behaviour)
    assert.equal(rig.server.wire.format, behaviour.format)
    assertNear(await train(rig), expected(), 1e-4)
  })

for (const reduction of ['sequence_mean', 'token_mean'] as const)
  test(`advantages times rowFactor are the plain sum on a server with ${reduction}`, async (t) => {
    const rig = await start(t, { reduction })
    const factor = (row: number): number => rowFactor(reduction, ROWS[row]!.targets.length, 2, 6)
    assertNear(await train(rig, factor), expected(), 1e-4)
  })

test('passes are handed in without waiting for results, a step when its passes have theirs', async (t) => {
  const gate = Promise.withResolvers<void>()
  const { server, model, scripted } = await start(t, {
    before: ({ kind }) => (kind === 'forward_backward' ? gate.promise : undefined),
  })
  const rows = trainRows([new Float32Array(4), new Float32Array(2)])
  const all = Promise.all([
    ...[1, 2].flatMap((seq) => server.prepareForwardBackward(model, seq, rows)).map((pass) => server.send(pass)),
    server.send(server.prepareOptimStep(model, 3, ADAM)),
    server.send(server.prepareForward(model, 4, ROWS)[0]!),
  ])
  while (scripted.asked('retrieve_future').length < 3) await new Promise(setImmediate)
  assert.equal(scripted.asked('optim_step').length, 0)
  gate.resolve()
  await all
  assert.deepEqual(
    scripted.ran.slice(1),
    [1, 2].map((seq) => `forward_backward ${model} ${seq}`).concat(`optim_step ${model} 3`, `forward ${model} 4`),
  )
})

test('a step behind a pass that failed is not sent', async (t) => {
  const { server, model, scripted } = await start(t, {
    fail: ({ kind }) => (kind === 'forward_backward' ? 'RESOURCE_EXHAUSTED' : null),
  })
  const [pass] = server.prepareForwardBackward(model, 1, trainRows([new Float32Array(4), new Float32Array(2)]))
  const both = await Promise.allSettled([server.send(pass!), server.send(server.prepareOptimStep(model, 2, ADAM))])
  assert.deepEqual(
    both.map((one) => one.status === 'rejected' && (one.reason as InstarError).code),
    ['trainer_failed', 'trainer_failed'],
  )
  assert.equal(scripted.asked('optim_step').length, 0)
})

test('a step behind a refused pass is not sent', async (t) => {
  const { server, model, scripted } = await start(t, { losses: ['cross_entropy'] })
  const [pass] = server.prepareForwardBackward(model, 1, trainRows([new Float32Array(4), new Float32Array(2)]))
  const [first, second] = await Promise.allSettled([
    server.send(pass!),
    server.send(server.prepareOptimStep(model, 2, ADAM)),
  ])
  assert.equal(first.status === 'rejected' && (first.reason as InstarError).code, 'trainer_refused')
  assert.equal(second.status === 'rejected' && (second.reason as InstarError).code, 'trainer_refused')
  assert.equal(scripted.asked('optim_step').length, 0)
})

test('an answer that is lost is asked for again: the pass runs once', async (t) => {
  const { server, model, scripted } = await start(t)
  let left = 2
  scripted.behaviour.cut = ({ path }) => path === '/api/v1/forward_backward' && left-- > 0
  const [pass] = server.prepareForwardBackward(model, 1, trainRows([new Float32Array(4), new Float32Array(2)]))
  const { result } = await server.send(pass!)
  assert.equal(result.logprobs.length, 2)
  assert.equal(scripted.ran.filter((one) => one.startsWith('forward_backward')).length, 1)
})

test('a request that another process sends again has the same bytes and the same result', async (t) => {
  const { server, model, scripted } = await start(t)
  const [pass] = server.prepareForward(model, 1, ROWS)
  const first = await server.send(pass!)
  const other = await connectTrainer(scripted.url, { key: null, wire: server.wire, limits: QUICK })
  t.after(() => other.close())
  const [again] = other.prepareForward(model, 1, ROWS)
  assert.equal(again!.sha256, pass!.sha256)
  assert.deepEqual(await other.send(again!), first)
})

test('other bytes under a used seq are trainer_seq_used', async (t) => {
  const { server, model } = await start(t)
  await server.send(server.prepareForward(model, 1, ROWS)[0]!)
  await assert.rejects(server.send(server.prepareForward(model, 1, ROWS.slice(0, 1))[0]!), code('trainer_seq_used'))
})

test('a save whose answer was lost is found among the checkpoints', async (t) => {
  const { server, model, scripted } = await start(t)
  let left = 1
  scripted.behaviour.cut = ({ path }) => path === '/api/v1/save_weights' && left-- > 0
  const answer = await server.send(server.prepareSave(model, 1, 'v1'))
  assert.deepEqual(answer, { requestId: null, responseSha256: null, result: { path: `tinker://${model}/weights/v1` } })
})

test('a server that was restarted does not hold the model; a new one continues from the saved state', async (t) => {
  const rig = await start(t, { reduction: 'sum' })
  const { server, model, scripted } = rig
  await train(rig)
  const { result } = await server.send(server.prepareSave(model, 8, 'v1'))
  const before = await server.send(server.prepareForward(model, 9, ROWS)[0]!)
  await scripted.restart()
  await assert.rejects(server.send(server.prepareForward(model, 10, ROWS)[0]!), code('trainer_model_lost'))
  const session = await server.openSession()
  const fresh = await server.createModel(session, { base: 'base', rank: 4, seed: 3, modelSeq: 0 })
  await server.send(server.prepareLoad(fresh.model, 1, result.path, { optimizer: true }))
  const after = await server.send(server.prepareForward(fresh.model, 2, ROWS)[0]!)
  assert.deepEqual(after.result.logprobs, before.result.logprobs)
})

test('a state that is gone is trainer_state_lost, a used model trainer_model_lost, no slot trainer_full', async (t) => {
  const { server, model, session, scripted } = await start(t, { slots: 1 })
  const gone = `tinker://${model}/weights/none`
  await assert.rejects(server.send(server.prepareLoad(model, 1, gone, { optimizer: true })), code('trainer_state_lost'))
  await server.send(server.prepareForward(model, 1, ROWS)[0]!)
  await assert.rejects(server.send(server.prepareLoad(model, 2, gone, { optimizer: true })), code('trainer_model_lost'))
  const options = { base: 'base', rank: 4, seed: 3, modelSeq: 1 }
  await assert.rejects(server.createModel(session, options), code('trainer_full'))
  scripted.forgetAll()
  await assert.rejects(server.send(server.prepareForward(model, 3, ROWS)[0]!), code('trainer_model_lost'))
  await assert.rejects(server.resumeSession(session), code('trainer_model_lost'))
  assert.equal(await server.info(model), null)
  await server.unload(model)
})

test('what a poll can give: 408, try_again, 500, 429, no answer, 410, 400 without a message', async (t) => {
  const { server, model, scripted } = await start(t)
  const replies = [
    { status: 408, body: { detail: 'Timeout waiting for result' } },
    { status: 200, body: { type: 'try_again', queue_state: 'paused_capacity' } },
    { status: 500, body: 'Internal Server Error' },
    { status: 429, body: '', headers: { 'retry-after': '0' } },
    { status: 410, body: '' },
    { status: 400, body: '<html>bad gateway</html>' },
  ]
  scripted.behaviour.retrieve = () => replies.shift() ?? null
  const { result } = await server.send(server.prepareForward(model, 1, ROWS)[0]!)
  assert.equal(result.logprobs[0]?.length, 4)
  assert.equal(replies.length, 0)
  assert.equal(scripted.asked('forward_backward').filter(({ bytes }) => bytes.includes(model)).length, 2)
})

const finals: [string, number, unknown, string][] = [
  ['a failure of SkyRL', 400, { detail: 'jaxlib: RESOURCE_EXHAUSTED' }, 'trainer_failed'],
  ['a failure of a hosted server', 200, { error: 'out of memory', category: 'server' }, 'trainer_failed'],
  ['an error of the request', 200, { error: 'context too long', category: 'user' }, 'trainer_refused'],
  ['billing', 402, { detail: 'no credits' }, 'trainer_refused'],
  ['no permission', 403, { detail: 'forbidden' }, 'trainer_refused'],
  ['another form', 200, { nothing: true }, 'trainer_mismatch'],
  ['no JSON', 200, '<html>', 'trainer_mismatch'],
]
for (const [name, status, body, expectedCode] of finals)
  test(`a result that is ${name} is ${expectedCode}`, async (t) => {
    const { server, model, scripted } = await start(t)
    scripted.behaviour.retrieve = () => ({ status, body })
    await assert.rejects(server.send(server.prepareForward(model, 1, ROWS)[0]!), code(expectedCode))
  })

const padded: [string, (rows: number[][]) => number[][]][] = [
  ['one log-prob more', (rows) => rows.map((row) => [...row, -1])],
  ['one row fewer', (rows) => rows.slice(1)],
  ['a log-prob above 0', (rows) => rows.map((row) => row.map(() => 1))],
]
for (const [name, logprobs] of padded)
  test(`a pass with ${name} is trainer_mismatch`, async (t) => {
    const { server, model } = await start(t, { logprobs })
    await assert.rejects(server.send(server.prepareForward(model, 1, ROWS)[0]!), code('trainer_mismatch'))
  })

for (const value of [Number.NaN, Infinity, -Infinity])
  test(`log-probs of ${value} reach the trainer, which leaves their turns out`, async (t) => {
    const { server, model } = await start(t, { logprobs: (rows) => rows.map((row) => row.map(() => value)) })
    const { result } = await server.send(server.prepareForward(model, 1, ROWS)[0]!)
    assert.deepEqual(
      result.logprobs.map((row) => [...row]),
      ROWS.map(({ targets }) => targets.map(() => value)),
    )
  })

test('JSON with the NaN and Infinity of other languages is read, and strings in it stay', async (t) => {
  const { server, model, scripted } = await start(t, { format: 'json' })
  const logprobs = (data: string): string => `{"logprobs": {"data": ${data}, "dtype": "float32"}}`
  const outputs = `[${logprobs('[-1, NaN, -Infinity, -2]')}, ${logprobs('[Infinity, -0.5]')}]`
  const body = `{"loss_fn_outputs": ${outputs}, "metrics": {"a \\"NaN": NaN, "b": 2}, "note": "NaN, \\"-Infinity"}`
  scripted.behaviour.retrieve = () => ({ status: 200, body })
  const { result } = await server.send(server.prepareForward(model, 1, ROWS)[0]!)
  assert.deepEqual(
    result.logprobs.map((row) => [...row].map((value) => (Number.isFinite(value) ? value : null))),
    [
      [-1, null, null, -2],
      [null, -0.5],
    ],
  )
  assert.deepEqual(result.metrics, { b: 2 })
})

for (const [norm, expected] of [
  ['NaN', Number.NaN],
  ['Infinity', Number.NaN],
  ['null', Number.NaN],
  ['1e999', Number.NaN],
  ['2.5', 2.5],
] as const)
  test(`a norm of the gradient that is ${norm} is ${expected}`, async (t) => {
    const { server, model, scripted } = await start(t)
    const body = `{"metrics": {"skyrl.ai/grad_norm": ${norm}, "skyrl.ai/learning_rate": 1}}`
    scripted.behaviour.retrieve = ({ kind }) => (kind === 'optim_step' ? { status: 200, body } : null)
    const { result } = await server.send(server.prepareOptimStep(model, 1, ADAM))
    assert.deepEqual(result, {
      gradNorm: expected,
      metrics: { 'skyrl.ai/learning_rate': 1, ...(expected > 0 ? { 'skyrl.ai/grad_norm': expected } : {}) },
    })
  })

for (const [status, expected] of [
  [500, 'trainer_failed'],
  [503, 'trainer_lost'],
] as const)
  test(`a result that stays ${status} until its limit is ${expected}`, async (t) => {
    const { server, model, scripted } = await start(t, {}, { resultMs: 100 })
    scripted.behaviour.retrieve = () => ({ status, body: 'Internal Server Error' })
    await assert.rejects(server.send(server.prepareForward(model, 1, ROWS)[0]!), code(expected))
  })

test('rows are cut into requests by number and by bytes, whose gradients add up', async (t) => {
  const config = { fwdbwd_max_chunk_len: 2, fwdbwd_max_chunk_bytes_count: 5_000_000 }
  const { server, model, scripted } = await start(t, { config, reduction: 'sum' })
  const rows = Array.from({ length: 5 }, (_, id) => ({
    tokens: [id],
    targets: [id + 1],
    logprobs: [-1],
    advantages: [1],
  }))
  const passes = server.prepareForwardBackward(model, 1, rows)
  assert.deepEqual(
    passes.map(({ seq, lengths }) => [seq, lengths.length]),
    [
      [1, 2],
      [2, 2],
      [3, 1],
    ],
  )
  await Promise.all([...passes.map((pass) => server.send(pass)), server.send(server.prepareOptimStep(model, 4, ADAM))])
  assert.deepEqual(
    scripted.ran.slice(1).map((one) => one.split(' ')[2]),
    ['1', '2', '3', '4'],
  )
  const small = { ...server.wire, rowsMax: 1000, bytesMax: passes[0]!.bytes.length }
  const other = await connectTrainer(scripted.url, { key: null, wire: small })
  t.after(() => other.close())
  assert.equal(other.prepareForwardBackward(model, 1, rows).length, 3)
})

test('a session is kept alive by heartbeats until it ends', async (t) => {
  const { server, session, scripted } = await start(t, {}, { heartbeatMs: 5 })
  while (scripted.heartbeats < 3) await new Promise(setImmediate)
  await server.resumeSession(session)
  server.endSession(session)
  const count = scripted.heartbeats
  await server.hello()
  assert.ok(scripted.heartbeats - count <= 1)
})

test('the key goes into a header, and into no error that quotes the server', async (t) => {
  const { server, scripted, model } = await start(t, { key: 'tml-secret' })
  scripted.behaviour.retrieve = () => ({ status: 400, body: { detail: 'the key tml-secret has no credits' } })
  await assert.rejects(server.send(server.prepareForward(model, 1, ROWS)[0]!), (error: InstarError) => {
    assert.equal(error.message.includes('secret'), false, error.message)
    return true
  })
  await assert.rejects(connectTrainer(scripted.url, { key: 'tml-other' }), (error: InstarError) => {
    assert.equal(error.code, 'trainer_refused')
    assert.ok(error.message.includes('INSTAR_TRAINER_KEY'), error.message)
    return true
  })
})

test('a server that is away is trainer_lost within the limit; one that comes back is not noticed', async (t) => {
  const { server, model, scripted } = await start(t, {}, { submitMs: 600 })
  await scripted.kill()
  await assert.rejects(server.send(server.prepareForward(model, 1, ROWS)[0]!), code('trainer_lost'))
  const pending = server.hello()
  await scripted.start()
  assert.deepEqual((await pending).models, ['base'])
})

test('an aborted request rejects with the reason of its signal', async (t) => {
  const never = Promise.withResolvers<void>()
  const { server, model } = await start(t, { before: ({ kind }) => (kind === 'forward' ? never.promise : undefined) })
  const controller = new AbortController()
  const sent = server.send(server.prepareForward(model, 1, ROWS)[0]!, controller.signal)
  const reason = new Error('enough')
  controller.abort(reason)
  await assert.rejects(sent, reason)
  never.resolve()
})
