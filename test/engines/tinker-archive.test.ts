/** Adapters as packages/tinker fetches them: from the scripted server, through redirects, and from hostile archives. */
import { connectTrainer, type FetchedAdapter, type TrainingServer } from '@instar/tinker'
import type { InstarError } from '@instar/events/errors'
import { adapterFromWeights } from '@instar/policy'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { ScriptedTinker, type TinkerBehaviour } from './scripted-tinker.ts'
import { packAdapter, writeSafetensors, writeTar, type TarEntry } from './tinker-wire.ts'

type Rig = { scripted: ScriptedTinker; server: TrainingServer; path: string }

const start = async (t: TestContext, behaviour: TinkerBehaviour = {}, archiveBytesMax = 1 << 20): Promise<Rig> => {
  const scripted = await new ScriptedTinker(behaviour).start()
  t.after(() => scripted.kill())
  const server = await connectTrainer(scripted.url, {
    key: behaviour.key ?? null,
    limits: { archiveBytesMax, submitMs: 3000 },
  })
  t.after(() => server.close())
  const { model } = await server.createModel(await server.openSession(), {
    base: 'base',
    rank: 4,
    seed: 3,
    modelSeq: 0,
  })
  const { result } = await server.send(server.prepareSaveForSampler(model, 1, 'v1'))
  return { scripted, server, path: result.path }
}

const PROJECTIONS = ['down_proj', 'gate_proj', 'k_proj', 'o_proj', 'q_proj', 'up_proj', 'v_proj']
const forms: TinkerBehaviour[] = [
  { samplerPath: 'plain', adapters: 'archive' },
  { samplerPath: 'typed', adapters: 'archive', key: 'tml-1' },
  { adapters: 'external_weights' },
]
for (const behaviour of forms)
  test(`an adapter is fetched by ${JSON.stringify(behaviour)}, with the targets of its tensors`, async (t) => {
    const { server, path } = await start(t, behaviour)
    const adapter = await server.archive(path, 'org/base')
    assert.deepEqual(adapter.targets, PROJECTIONS)
    assert.deepEqual([adapter.rank, adapter.alpha, adapter.tensors], [4, 32, 14])
    const { config } = adapterFromWeights(adapter.weights)
    assert.deepEqual(JSON.parse(Buffer.from(config).toString('utf8')), adapter.config)
    assert.equal(adapter.config['base_model_name_or_path'], 'org/base')
  })

test('the same tensors in another archive have other archive bytes and the same digest and weights', async (t) => {
  const { server, path, scripted } = await start(t)
  const first = await server.archive(path, 'base')
  scripted.behaviour.archive = (bytes) => gzipSync(gunzipSync(bytes), { level: 1 })
  const second = await server.archive(path, 'base')
  assert.notEqual(second.archiveSha256, first.archiveSha256)
  assert.equal(second.tensorsSha256, first.tensorsSha256)
  assert.deepEqual(second.weights, first.weights)
})

const A = { shape: [2, 3], values: [1, 2, 3, 4, 5, 6] }
const B = { shape: [3, 2], values: [0, 0, 0, 0, 0, 0] }
const MODULE = 'base_model.model.model.layers.0.self_attn.q_proj'
const TENSORS = { [`${MODULE}.lora_A.weight`]: A, [`${MODULE}.lora_B.weight`]: B }
const CONFIG = { peft_type: 'LORA', r: 2, lora_alpha: 8, target_modules: null }
const WEIGHTS = writeSafetensors(TENSORS)
const FILES: TarEntry[] = [
  { name: 'adapter_model.safetensors', bytes: WEIGHTS },
  { name: 'adapter_config.json', bytes: Buffer.from(JSON.stringify(CONFIG)) },
]

/** The adapter of an archive with these bytes. */
const fetched = async (t: TestContext, bytes: Buffer): Promise<FetchedAdapter> => {
  const { server, path } = await start(t, { archive: () => bytes })
  return server.archive(path, 'base')
}

const good: [string, Buffer][] = [
  ['a tar that is not packed', writeTar(FILES)],
  [
    'files in folders, with others beside',
    gzipSync(
      writeTar([
        { name: './x/', bytes: Buffer.alloc(0), type: '5' },
        { name: 'notes.txt', bytes: Buffer.from('hello') },
        ...FILES.map((file) => ({ ...file, name: `./x/${file.name}` })),
      ]),
    ),
  ],
  [
    'names in PAX headers',
    gzipSync(
      writeTar(FILES.map((file, at) => ({ ...file, name: `${at}`, pax: { path: `y/${file.name}`, mtime: '1.5' } }))),
    ),
  ],
  [
    'names of tensors as PEFT has them in memory',
    packAdapter(
      writeSafetensors({
        [`${MODULE.slice('base_model.model.'.length)}.lora_A.default.weight`]: A,
        [`${MODULE}.lora_B.default.weight`]: B,
      }),
      CONFIG,
    ),
  ],
]
for (const [name, bytes] of good)
  test(`an archive with ${name} gives the adapter`, async (t) => {
    const adapter = await fetched(t, bytes)
    assert.deepEqual([adapter.targets, adapter.rank, adapter.alpha], [['q_proj'], 2, 8])
    assert.equal(adapter.tensorsSha256, (await fetched(t, writeTar(FILES))).tensorsSha256)
  })

const altered = (bytes: Buffer, at: number): Buffer => {
  const copy = Buffer.from(bytes)
  copy[at] = (copy[at] ?? 0) ^ 1
  return copy
}
const withConfig = (config: unknown): Buffer => packAdapter(WEIGHTS, config)
const withTensors = (tensors: Parameters<typeof writeSafetensors>[0]): Buffer =>
  packAdapter(writeSafetensors(tensors), CONFIG)
const bad: [string, Buffer, RegExp][] = [
  [
    'a name that leads out of its folder',
    writeTar([{ ...FILES[0]!, name: '../adapter_model.safetensors' }, FILES[1]!]),
    /leads out/,
  ],
  [
    'a link',
    writeTar([{ name: 'adapter_model.safetensors', bytes: Buffer.alloc(0), type: '2' }, FILES[1]!]),
    /no regular file/,
  ],
  ['a file twice', writeTar([...FILES, FILES[0]!]), /twice/],
  ['no config', writeTar(FILES.slice(0, 1)), /not in the archive/],
  ['a size beyond its end', writeTar(FILES).subarray(0, 1500), /longer than the archive|not in the archive/],
  ['a damaged header', altered(writeTar(FILES), 1024), /damaged/],
  [
    'a damaged extended header',
    writeTar([{ ...FILES[0]!, pax: { 'no equals': '' } }]).fill('99 mtime', 512, 520),
    /damaged/,
  ],
  ['more bytes than allowed, packed small', gzipSync(Buffer.alloc(8 << 20)), /more than 1048576 bytes/],
  ['more bytes than allowed', Buffer.alloc((1 << 20) + 1, 1), /more than 1048576 bytes/],
  ['half a gzip', packAdapter(WEIGHTS, CONFIG).subarray(0, 60), /gzip/],
  ['no tar', Buffer.from('<html>not found</html>'.repeat(100)), /damaged/],
  ['nothing', Buffer.alloc(0), /not in the archive/],
  ['a config that is no JSON', writeTar([FILES[0]!, { name: 'adapter_config.json', bytes: Buffer.from('{') }]), /JSON/],
  ['DoRA', withConfig({ ...CONFIG, use_dora: true }), /use_dora/],
  ['another rank in its config', withConfig({ ...CONFIG, r: 4 }), /says r 4/],
  ['no alpha', withConfig({ ...CONFIG, lora_alpha: null }), /lora_alpha/],
  ['one matrix alone', withTensors({ [`${MODULE}.lora_A.weight`]: A }), /no matrix B/],
  [
    'two ranks',
    withTensors({ ...TENSORS, [`${MODULE}.lora_B.weight`]: { shape: [2, 3], values: B.values } }),
    /rank 2 and 3/,
  ],
  ['a tensor that is no LoRA', withTensors({ ...TENSORS, 'model.embed_tokens.weight': A }), /no matrix of a LoRA/],
  ['a header longer than the file', packAdapter(Buffer.from('ffffffffffffff00', 'hex'), CONFIG), /header/],
  ['offsets outside the file', packAdapter(Buffer.from(WEIGHTS.subarray(0, WEIGHTS.length - 4)), CONFIG), /offsets/],
  [
    'bytes behind the last tensor',
    packAdapter(Buffer.concat([WEIGHTS, Buffer.alloc(4)]), CONFIG),
    /follow the last tensor/,
  ],
]
for (const [name, bytes, message] of bad)
  test(`an archive with ${name} is refused`, async (t) => {
    await assert.rejects(fetched(t, bytes), (error: InstarError) => {
      assert.ok(error.code === 'bad_checkpoint' || error.code === 'trainer_mismatch', error.code)
      assert.match(error.message, message)
      return true
    })
  })

const elsewhere = async (t: TestContext, listener: RequestListener): Promise<string> => {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.closeAllConnections())
  t.after(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a redirect to another origin is followed without the key; one to another protocol or in circles is not', async (t) => {
  const { server, path, scripted } = await start(t, { key: 'tml-secret', samplerPath: 'typed' })
  const seen: IncomingMessage['headers'][] = []
  const url = await elsewhere(t, ({ headers }, response) => {
    seen.push(headers)
    response.end(packAdapter(WEIGHTS, CONFIG))
  })
  const redirect = (location: string): void => {
    scripted.behaviour.admit = (one) =>
      one.path.endsWith('/archive') ? { status: 302, body: '', headers: { location } } : null
  }
  redirect(`${url}/signed?s=1`)
  assert.equal((await server.archive(path, 'base')).rank, 2)
  assert.deepEqual(
    seen.map((headers) => headers['x-api-key']),
    [undefined],
  )
  for (const location of [
    'file:///etc/passwd',
    'http://',
    `${scripted.url}${'/api/v1/training_runs/x/checkpoints/y/archive'}`,
  ]) {
    redirect(location)
    await assert.rejects(server.archive(path, 'base'), (error: InstarError) => {
      assert.equal(error.code, 'bad_checkpoint', error.message)
      return true
    })
  }
})

test('an adapter that is not there is trainer_state_lost; one that is being written is waited for', async (t) => {
  const { server, path, scripted } = await start(t)
  await assert.rejects(server.archive('tinker://none/v9', 'base'), (error: InstarError) => {
    assert.equal(error.code, 'trainer_state_lost', error.message)
    return true
  })
  let left = 2
  scripted.behaviour.admit = (one) =>
    one.path.endsWith('/archive') && left-- > 0
      ? { status: 425, body: { detail: 'Checkpoint is still being created' } }
      : null
  assert.equal((await server.archive(path, 'base')).rank, 4)
})

test('a server that sends a byte now and then is left after the limit for the whole answer', async (t) => {
  const url = await elsewhere(t, (_, response) => {
    response.writeHead(200)
    const timer = setInterval(() => response.write(' '), 5)
    response.once('close', () => clearInterval(timer))
  })
  await assert.rejects(
    connectTrainer(url, { key: null, limits: { answerMs: 60, submitMs: 100 } }),
    (error: InstarError) => {
      assert.equal(error.code, 'trainer_lost', error.message)
      return true
    },
  )
})

test('an answer without an end is left at its limit of bytes', async (t) => {
  const url = await elsewhere(t, (_, response) => {
    response.writeHead(200)
    const fill = (): void => {
      while (response.write(Buffer.alloc(1 << 16, 32)));
    }
    response.on('drain', fill)
    fill()
  })
  await assert.rejects(connectTrainer(url, { key: null }), (error: InstarError) => {
    assert.equal(error.code, 'trainer_mismatch', error.message)
    return true
  })
})
