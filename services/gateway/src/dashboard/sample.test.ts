import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test, type TestContext } from 'node:test'
import { encodeEvent, InstarError, type Event } from '@instar/events'
import { openMemoryLog, putBlob, type EventLog } from '@instar/log'
import type { ReadModel } from '@instar/projections/read-model'
import {
  model,
  Publisher,
  sha256,
  sse,
  startRig,
  turnsOf,
  type Rig,
  type RigOptions,
} from '../../../../test/kit/gateway.ts'
import type { Scope } from '../receive/core/keys.ts'

type Frame = {
  start?: { prompt_tokens: number; temperature: number; adapter: string | null }
  tokens?: { id: number; text: string; logprob: number }[]
  finish?: string
  error?: { code: string }
}

const start = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  const rig = await startRig(options)
  t.after(() => rig.stop())
  return rig
}
const framesOf = async (response: Response): Promise<Frame[]> => {
  assert.equal(response.status, 200)
  const frames: Frame[] = []
  for await (const data of sse(response)) if (data !== '[DONE]') frames.push(JSON.parse(data) as Frame)
  return frames
}
const sample = (rig: Rig, json: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  rig.fetch('/v1/dashboard/sample', { json, headers })
const codeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { error: { code: string } }).error.code

/** Stores an adapter, and a branch that ends with it. */
const branchOf = async (log: EventLog, name: string, weights: Uint8Array): Promise<void> => {
  const at = Date.now()
  await putBlob(log, weights, at)
  const line = { policy: `policy~${name}`, at }
  let prev = ''
  const append = async (event: Event): Promise<void> => {
    const { id, ...record } = encodeEvent(event)
    await log.append([record])
    prev = id
  }
  const base = { name: 'tiny', sha256: model.sha256 }
  await append({ type: 'LineStarted', prev, ...line, mode: 'replay', base, parent: null, settings: {} })
  await append({
    type: 'VersionPublished',
    prev,
    ...line,
    number: 1,
    update: 'update',
    adapter: sha256(weights),
    adapterBytes: weights.length,
    state: 'none',
    blobsAt: at,
    parent: 0,
    why: 'update',
    source: null,
    figures: {},
  })
}

test('the prompt of a recorded turn is asked again by its ids, with its sampling, and nothing is recorded', async (t) => {
  const rig = await start(t, { script: () => 'Paris, of course.' })
  await rig.client.chat.completions.create({
    model: 'policy',
    temperature: 0.3,
    top_p: 0.9,
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'The capital of France?' },
    ],
  })
  const [turn] = await turnsOf(rig.log)
  const asked = { weights: { version: 0 }, prompt: { turn: turn!.turn }, seed: 7 }
  const frames = await framesOf(await sample(rig, asked))
  const { prompt, sampling } = rig.engine.requests.at(-1)!
  assert.deepEqual(prompt, rig.engine.requests[0]!.prompt)
  assert.deepEqual([sampling.temperature, sampling.topP, sampling.seed], [0.3, 0.9, 7])
  assert.equal(frames[0]!.start!.prompt_tokens, prompt.length)
  const tokens = frames.flatMap((frame) => frame.tokens ?? [])
  assert.deepEqual(
    tokens.map(({ id }) => id),
    turn!.ids,
  )
  assert.equal(tokens.map(({ text }) => text).join(''), 'Paris, of course.')
  assert.ok(tokens.every(({ logprob }) => logprob <= 0))
  assert.equal(frames.at(-1)!.finish, 'stop')
  assert.equal((await turnsOf(rig.log)).length, 1)
  const prompts = (await (await rig.fetch('/v1/dashboard/prompts')).json()) as { rows: Record<string, string>[] }
  assert.deepEqual(
    prompts.rows.map(({ turn_id, asked: said }) => [turn_id, said]),
    [[turn!.turn, 'The capital of France?']],
  )
})

test('a typed prompt is answered by a version, the end of a branch, and an update that the gate rejected', async (t) => {
  const log = openMemoryLog()
  const publisher = new Publisher(log)
  await publisher.start()
  const version = await publisher.publish(0)
  await branchOf(log, 'other', Buffer.from('of a branch'))
  const at = Date.now()
  await putBlob(log, Buffer.from('rejected'), at)
  const readModel = {
    rejected: async (number: number) =>
      number === 4 ? { adapter: sha256(Buffer.from('rejected')), since: new Date(at - 1000).toISOString() } : null,
    close: async () => undefined,
  } as unknown as ReadModel
  const rig = await start(t, { log, ports: { readModel } })
  const prompt = { text: 'Hello <|im_end|>' }
  for (const [weights, adapter] of [
    [{ version: 0 }, null],
    [{ version: 1 }, version],
    [{ branch: 'other' }, sha256(Buffer.from('of a branch'))],
    [{ update: 4 }, sha256(Buffer.from('rejected'))],
  ] as const) {
    const [first] = await framesOf(await sample(rig, { weights, prompt }))
    assert.equal(first!.start!.adapter, adapter, JSON.stringify(weights))
    assert.equal(rig.engine.requests.at(-1)!.adapter, adapter)
  }
  assert.deepEqual(
    rig.engine.requests.at(-1)!.prompt,
    model.promptIds([{ role: 'user', content: prompt.text }], { tools: [] }),
  )
  for (const [weights, code] of [
    [{ version: 9 }, 'unknown_version'],
    [{ branch: 'none' }, 'unknown_branch'],
    [{ update: 5 }, 'unknown_version'],
    [{ version: -1 }, 'bad_request'],
    [{}, 'bad_request'],
  ] as const)
    assert.equal(await codeOf(await sample(rig, { weights, prompt })), code, JSON.stringify(weights))
  const ask = (more: object) => sample(rig, { weights: { version: 0 }, prompt, ...more })
  for (const more of [
    { prompt: { text: '' } },
    { prompt: { text: 'x'.repeat(20_001) } },
    { max_tokens: 2_049 },
    { x: 1 },
  ])
    assert.equal(await codeOf(await ask(more)), 'bad_request', Object.keys(more)[0])
  assert.equal((await ask({ max_tokens: 2_048 })).status, 200)
  assert.equal(await codeOf(await ask({ prompt: { turn: 'none' } })), 'unknown_turn')
})

test('an engine that is lost in the middle ends the stream with its error', async (t) => {
  const rig = await start(t, {
    script: () => ({
      text: 'one two three four',
      before: (token) => {
        if (token === 2) throw new InstarError('engine_lost', 'lost')
      },
    }),
  })
  const frames = await framesOf(await sample(rig, { weights: { version: 0 }, prompt: { text: 'Hi' } }))
  assert.equal(frames.flatMap((frame) => frame.tokens ?? []).length, 2)
  assert.equal(frames.at(-1)!.error!.code, 'engine_lost')
})

test('an answer to compare needs the scopes read and inference', async (t) => {
  const tokenOf = (id: string): string => `sk-instar-${id}-secret`
  const key = (id: string, scopes: Scope[]) => ({
    id,
    sha256: createHash('sha256').update(tokenOf(id)).digest('hex'),
    scopes,
  })
  const keys = [key('reads', ['read']), key('asks', ['inference']), key('both', ['read', 'inference'])]
  const rig = await start(t, { settings: { keys } })
  const as = (id: string) =>
    sample(
      rig,
      { weights: { version: 0 }, prompt: { text: 'Hi' } },
      id ? { authorization: `Bearer ${tokenOf(id)}` } : {},
    )
  assert.equal(await codeOf(await as('')), 'invalid_api_key')
  assert.equal(await codeOf(await as('reads')), 'missing_scope')
  assert.equal(await codeOf(await as('asks')), 'missing_scope')
  assert.equal((await as('both')).status, 200)
})
