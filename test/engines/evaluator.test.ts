/**
 * What the gate measures through servers that serve: compared with the embedded learning engine, which computes the same
 * tokens, on vLLM's interface before the built-in engine.
 */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { startRemoteEvaluator, type OpenEvaluator, type RemoteEvaluatorOptions } from '@instar/engine'
import type { LearningEngine, Model, ServingEngine } from '@instar/engine/port'
import { isNeutral, openModel, startLearning, startServing } from '@instar/policy'
import { randomAdapter, writeRandomModel } from '../kit/random-model.ts'
import { EmbeddedVllm } from './embedded-vllm.ts'
import { ScriptedSglang } from './scripted-sglang.ts'
import { Cut, logprobOf } from './server.ts'

const folder = mkdtempSync(join(tmpdir(), 'instar-evaluator-'))
const adapters = join(folder, 'adapters')
const [candidate, head] = [randomAdapter(1), randomAdapter(2)]
const SAMPLING = { temperature: 0.7, topP: 1, topK: 0, seed: 7, maxTokens: 12, stop: [] }

let model: Model
let learner: LearningEngine
let engines: ServingEngine[]
let servers: EmbeddedVllm[]
let prompts: number[][]

before(async () => {
  const path = writeRandomModel(join(folder, 'model'))
  model = await openModel(path)
  learner = await startLearning({ model: path, engine: 'wasm' })
  engines = await Promise.all([1, 2].map(() => startServing({ model: path, engine: 'wasm' })))
  servers = await Promise.all(engines.map((engine) => new EmbeddedVllm(model, engine).start()))
  await learner.load(candidate)
  await learner.load(head)
  prompts = ['Hi', 'What is new?', 'Name a colour.', '1+1'].map((content) =>
    model.promptIds([{ role: 'user', content }], {}),
  )
})
after(async () => {
  for (const server of servers) await server.kill()
  for (const engine of engines) await engine.close()
  await learner.close()
  rmSync(folder, { recursive: true, force: true })
})
afterEach(() => {
  for (const server of servers) {
    server.behaviour = { say: () => '' }
    server.ignoresNamedIds = false
    server.loaded.clear()
    server.loads.length = 0
  }
})

const optionsFor = (replicas: readonly { url: string }[]): RemoteEvaluatorOptions => ({
  engine: `vllm+${replicas.map(({ url }) => `${url}/v1`).join(',')}`,
  model,
  adapters,
  isNeutral,
  concurrency: 4,
  requestMs: 20_000,
  retry: { waitMs: 5000, roundMs: 1 },
})

const open = async (
  replicas: readonly { url: string }[],
  options: Partial<RemoteEvaluatorOptions> = {},
): Promise<OpenEvaluator> => {
  const { evaluator, fault } = await startRemoteEvaluator({ ...optionsFor(replicas), ...options })
  assert.ok(evaluator, String(fault))
  return evaluator
}

const largest = (a: Float32Array, b: Float32Array): number =>
  a.reduce((most, one, at) => Math.max(most, Math.abs(one - b[at]!)), 0)

test('log-probs of given tokens are those of the learner under base, candidate and head, at any temperature', async () => {
  const evaluator = await open(servers.slice(0, 1))
  try {
    await evaluator.load(candidate)
    await evaluator.load(head, 'served')
    const completion = model.encode('Blue.')
    for (const adapter of [null, candidate.sha256, head.sha256])
      for (const temperature of [1, 0.7]) {
        const request = { prompt: prompts[0]!, completion, adapter, temperature }
        assert.ok(largest(await evaluator.score(request), await learner.score(request)) < 1e-4)
      }
    const request = { prompt: prompts[0]!, completion, temperature: 1 }
    const [own, base] = await Promise.all([
      learner.score({ ...request, adapter: candidate.sha256 }),
      learner.score({ ...request, adapter: null }),
    ])
    assert.ok(largest(own, base) > 0.1, 'the candidate changes them')
  } finally {
    await evaluator.close()
  }
})

test('samples are those of the learner, and KL and entropy agree with its sums within four standard errors', async () => {
  const evaluator = await open(servers)
  try {
    await evaluator.load(candidate)
    await evaluator.load(head, 'served')
    const request = {
      prompts,
      adapter: candidate.sha256,
      references: [head.sha256, null, candidate.sha256],
      sampling: SAMPLING,
      limits: [12, 12, 12, 3],
    }
    const [measured, exact] = await Promise.all([evaluator.evaluate(request), learner.evaluate(request)])
    assert.deepEqual(measured.completions, exact.completions)
    assert.equal(measured.length, exact.length)
    assert.equal(measured.repetition, exact.repetition)
    assert.equal(measured.estimate?.top, 16)
    for (const [at, kl] of exact.kl.slice(0, 2).entries()) {
      const error = measured.estimate!.errors[at]!
      assert.ok(error > 0 && Math.abs(measured.kl[at]! - kl) < 4 * error, `${measured.kl[at]} ± ${error}, ${kl}`)
    }
    assert.deepEqual([measured.kl[2], measured.estimate!.errors[2]], [0, 0])
    assert.ok(Math.abs(measured.entropy - exact.entropy) < 0.5, `${measured.entropy}, ${exact.entropy}`)
    assert.equal(exact.estimate, undefined)
  } finally {
    await evaluator.close()
  }
})

test('a candidate has a new name at each load and is removed afterwards; the head keeps the name of the gateways', async () => {
  const [server] = servers
  const evaluator = await open([server!])
  try {
    const names: string[] = []
    for (let time = 0; time < 2; time += 1) {
      await evaluator.load(candidate)
      await evaluator.load(head, 'served')
      names.push(...server!.loaded.keys())
      assert.ok(existsSync(join(adapters, 'gate', candidate.sha256)))
      await evaluator.unload(candidate.sha256)
      await evaluator.unload(head.sha256)
      assert.deepEqual([...server!.loaded.keys()], [`instar-${head.sha256.slice(0, 32)}`])
    }
    const own = names.filter((name) => name.startsWith('instar-gate-'))
    assert.equal(new Set(own).size, 2, own.join())
    assert.deepEqual(readdirSync(join(adapters, 'gate')), [])
    assert.ok(existsSync(join(adapters, head.sha256)))
  } finally {
    await evaluator.close()
  }
})

test('candidates that a crash left are removed at the next start, those of other installations are not', async () => {
  const [server] = servers
  const crashed = await open([server!])
  await crashed.load(candidate)
  await crashed.load(head, 'served')
  await crashed.close()
  const other = await open([server!], { adapters: join(folder, 'other') })
  await other.load(candidate)
  assert.equal(server!.loaded.size, 3)
  const said: string[] = []
  const evaluator = await open([server!], { logLine: (line) => said.push(line) })
  try {
    assert.equal(server!.loaded.size, 2)
    assert.ok(server!.loaded.has(`instar-${head.sha256.slice(0, 32)}`))
    assert.ok(said.includes('1 adapter of an earlier measurement removed'), said.join('\n'))
    // The candidate of the other one answers as before.
    await other.score({ prompt: prompts[0]!, completion: [1], adapter: candidate.sha256, temperature: 1 })
  } finally {
    await evaluator.close()
    await other.close()
  }
})

test('a candidate that another client unloads is loaded again under a new name', async () => {
  const [server] = servers
  const evaluator = await open([server!])
  try {
    await evaluator.load(candidate)
    server!.loaded.clear()
    const request = { prompt: prompts[0]!, completion: [1, 2], adapter: candidate.sha256, temperature: 1 }
    assert.ok(largest(await evaluator.score(request), await learner.score(request)) < 1e-4)
    assert.equal(new Set(server!.loads).size, 2)
  } finally {
    await evaluator.close()
  }
})

test('each replica scores by itself', async () => {
  const evaluator = await open(servers)
  try {
    await evaluator.load(candidate)
    const request = { prompt: prompts[1]!, completion: [5, 6, 7], adapter: candidate.sha256, temperature: 1 }
    servers[1]!.behaviour = { say: () => '', ignoresAdapters: true }
    const [first, second] = await evaluator.scoreOnEach!(request)
    assert.deepEqual(
      [first!.server, second!.server],
      servers.map(({ url }) => url),
    )
    assert.ok(largest(first!.logprobs, await learner.score(request)) < 1e-4)
    assert.ok(largest(second!.logprobs, await learner.score({ ...request, adapter: null })) < 1e-4)
  } finally {
    await evaluator.close()
  }
})

test('a replica that dies during a measurement: its answers are asked of the other one, with the same result', async () => {
  const evaluator = await open(servers)
  try {
    await evaluator.load(candidate)
    const request = { prompts, adapter: candidate.sha256, references: [null], sampling: SAMPLING }
    const whole = await evaluator.evaluate(request)
    // The one that is asked first.
    let dead: string | null = null
    for (const server of servers)
      server.behaviour = {
        say: () => '',
        admitNext: () => {
          if ((dead ??= server.url) === server.url) throw new Cut('the server dies')
          return 200
        },
      }
    const again = await evaluator.evaluate(request)
    assert.deepEqual(again.completions, whole.completions)
    // Rows of a batch differ in the last bits.
    assert.ok(Math.abs(again.kl[0]! - whole.kl[0]!) < 1e-4)
    assert.ok(dead !== null)
  } finally {
    await evaluator.close()
  }
})

test('at most as many requests run at once as the setting says', async () => {
  const [server] = servers
  let [running, most] = [0, 0]
  server!.behaviour = {
    say: () => '',
    admitNext: async () => {
      running += 1
      most = Math.max(most, running)
      // Time for another request to arrive, and for one too many.
      for (let n = 0; n < 100; n += 1) await new Promise(setImmediate)
      running -= 1
      return 200
    },
  }
  const evaluator = await open([server!], { concurrency: 2 })
  try {
    await evaluator
      .evaluate({ prompts, adapter: null, references: [candidate.sha256], sampling: SAMPLING })
      .catch(() => undefined)
    await evaluator.load(candidate)
    await evaluator.evaluate({ prompts, adapter: null, references: [candidate.sha256], sampling: SAMPLING })
    assert.equal(most, 2)
  } finally {
    await evaluator.close()
  }
})

test('a measurement ends with an error when the evaluator is closed', async () => {
  const [server] = servers
  const evaluator = await open([server!])
  await evaluator.load(candidate)
  server!.behaviour = {
    say: () => '',
    admitNext: async () => {
      await evaluator.close()
      return 200
    },
  }
  await assert.rejects(
    evaluator.evaluate({ prompts, adapter: null, references: [candidate.sha256], sampling: SAMPLING }),
    { code: 'aborted' },
  )
})

test('a server without log-probs of named tokens, or without adapters, cannot measure; the reason is given', async () => {
  const [server] = servers
  server!.ignoresNamedIds = true
  const older = await startRemoteEvaluator(optionsFor([server!]))
  assert.equal(older.evaluator, null)
  assert.match(older.fault!, /logprob_token_ids/)
  server!.lora = false
  const fixed = await startRemoteEvaluator(optionsFor([server!]))
  assert.match(fixed.fault!, /--enable-lora/)
  server!.lora = true
  const llamacpp = await startRemoteEvaluator({ ...optionsFor([]), engine: 'llamacpp+http://127.0.0.1:1' })
  assert.match(llamacpp.fault!, /llamacpp computes no log-probs/)
})

test('SGLang that sees no folder gets a candidate as tensors under a name of its own at each load, and unloads it', async () => {
  const server = new ScriptedSglang(model, { say: () => 'Hi.' })
  server.seesFolders = false
  await server.start()
  const evaluator = await open([], { engine: `sglang+${server.url}` })
  try {
    const names: string[] = []
    for (let times = 0; times < 2; times += 1) {
      await evaluator.load(candidate)
      const [[name, sha256]] = [...server.loaded] as [[string, string]]
      names.push(name)
      assert.equal(sha256, candidate.sha256)
      await evaluator.unload(candidate.sha256)
      assert.equal(server.loaded.size, 0)
    }
    assert.equal(new Set(names).size, 2)
    assert.ok(names.every((name) => name.startsWith('instar-gate-')))
  } finally {
    await evaluator.close()
    await server.kill()
  }
})

test('SGLang scores whole completions: KL is k3 of the sampled tokens, at temperature 1', async () => {
  const server = await new ScriptedSglang(model, { say: () => 'Hi.' }).start()
  const evaluator = await open([], { engine: `sglang+${server.url}` })
  try {
    assert.equal(evaluator.temperature, 1)
    await evaluator.load(candidate)
    const request = { prompts: prompts.slice(0, 1), adapter: candidate.sha256, references: [null] }
    const { kl, estimate, completions } = await evaluator.evaluate({
      ...request,
      sampling: { ...SAMPLING, temperature: 1 },
    })
    const ids = completions[0]!.ids
    const k3 = ids.map((id) => {
      const ratio = logprobOf(id, null) - logprobOf(id, candidate.sha256)
      return Math.exp(ratio) - 1 - ratio
    })
    assert.ok(Math.abs(kl[0]! - k3.reduce((sum, one) => sum + one, 0) / ids.length) < 1e-9)
    assert.equal(estimate!.top, 0)
    await assert.rejects(evaluator.evaluate({ ...request, sampling: SAMPLING }), { code: 'not_available' })
  } finally {
    await evaluator.close()
    await server.kill()
  }
})
