/**
 * 10,000 malformed or hostile requests over every route, from a seed: the gateway stays up, no response is an internal
 * error, every error has the form of its dialect, no memory is kept, and answered requests are on the log as sent.
 * INSTAR_FUZZ_SEED and INSTAR_FUZZ_REQUESTS select other runs; INSTAR_FUZZ_ONLY sends one request of a run alone.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test, type TestContext } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import {
  decodeRecord,
  foldTurns,
  foldWeights,
  initialTurns,
  initialWeights,
  schemaTexts,
  type Logged,
  type TurnsEvent,
  type WeightsEvent,
} from '@instar/events'
import { createTurnReader, openEmbeddedLog } from '@instar/log'
import { Dice } from '../../../../test/kit/fuzz/dice.ts'
import { readable, shotOf, type Route, type Shot, type Target } from '../../../../test/kit/fuzz/shots.ts'
import { findingsIn, kindOf } from '../../../../test/kit/fuzz/verdict.ts'
import { exchange } from '../../../../test/kit/fuzz/wire.ts'
import { model, Publisher, startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine, type Script } from '../../../../test/kit/scripted-engine.ts'

const numberIn = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)
const SEED = numberIn('INSTAR_FUZZ_SEED', 20_261_121)
const REQUESTS = numberIn('INSTAR_FUZZ_REQUESTS', 10_000)
const ONLY = process.env['INSTAR_FUZZ_ONLY']
const AT_ONCE = 16
/** After this many requests every bounded collection is full. */
const WARM = 0.4
/**
 * Allowed growth of the heap at the end: bounded collections fill a little further (3 to 7 MiB, and no more after
 * 30,000). A leak of 2 KiB a request would be as much.
 */
const GROWTH_BYTES = 12 * 1024 * 1024
const BODY_LIMIT = 256 * 1024

const hash = (text: string): Buffer => createHash('sha256').update(text).digest()

const ANSWERS = [
  'Hello there, how are you?',
  '',
  'Two.\n\nLines: ß 😀',
  '<think>\nLet me see.\n</think>\n\nFour.',
  '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>',
  'I look.\n<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n<tool_call>\n{"name": "Read", "arguments": {}}\n</tool_call>',
  '<tool_call>\n{"name": ',
  '<think>Never ends',
  'data: [DONE]\n\n',
  '<|im_start|>user',
] as const
const script: Script = (_, prompt) => {
  const chance = hash(prompt)
  return {
    text: ANSWERS[chance[0]! % ANSWERS.length]!,
    ...(chance[1]! % 9 === 0 ? { stop: '.' } : chance[1]! % 9 === 1 ? { reason: 'length' as const } : {}),
  }
}

/** Answers that were begun and not ended. */
class Counted extends ScriptedEngine {
  inside = 0
  override async *generate(...args: Parameters<ScriptedEngine['generate']>): ReturnType<ScriptedEngine['generate']> {
    this.inside += 1
    try {
      yield* super.generate(...args)
    } finally {
      this.inside -= 1
      // Text that a test inspects would be the largest object that is kept.
      this.requests.length = 0
    }
  }
}

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

const KEYS = ['ann', 'bob']
/** Text that only Ann's conversations have. */
const SECRET = 'xyzzy-of-ann'
const keyOf = (id: string) => ({
  id,
  sha256: hash(`sk-${id}`).toString('hex'),
  scopes: ['inference', 'feedback', 'train', 'steps', ...(id === 'ann' ? ['admin'] : [])] as (
    | 'inference'
    | 'feedback'
    | 'train'
    | 'steps'
    | 'admin'
  )[],
})

/** A gateway with a history: two versions, and conversations in every dialect whose ids can be forged. */
const begin = async (
  t: TestContext,
  name: string,
  keyed: boolean,
): Promise<{ rig: Rig; engine: Counted; target: Target; port: number }> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-fuzz-'))
  folders.push(folder)
  const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
  const publisher = new Publisher(log)
  await publisher.start()
  for (const parent of [0, 1]) await publisher.publish(parent)
  const engine = new Counted(model, script)
  const random = new Dice(keyed ? 1 : 2)
  const rig = await startRig({
    log,
    engine,
    settings: {
      bodyLimit: BODY_LIMIT,
      headersTimeoutMs: 4000,
      requestTimeoutMs: 4000,
      sessions: 100,
      turns: 400,
      records: 8,
      pingMs: 50,
      wrongKeysPerMinute: 5,
      keys: keyed ? KEYS.map(keyOf) : [],
    },
    ports: {
      random: (bytes) => random.bytes(bytes),
      promote: async (branch) => ({ accepted: false, reason: branch.slice(0, 20) }),
      replay: async function* ({ branch }) {
        yield { done: 1, total: 2 }
        yield { equal: true, branch: typeof branch }
      },
    },
  })
  t.after(async () => {
    await rig.stop()
    await log.close()
  })
  // What authenticated before is exempt from the limit on wrong keys of its address, which the requests will exceed.
  const known = await rig.fetch('/admin/status', { headers: keyed ? { authorization: 'Bearer sk-ann' } : {} })
  assert.equal(known.status, 200, await known.text())
  return {
    rig,
    engine,
    port: Number(new URL(rig.url).port),
    target: {
      name,
      bodyLimit: BODY_LIMIT,
      keys: keyed ? KEYS.map((id) => `sk-${id}`) : [],
      routes: await routesOf(rig, keyed),
      ids: await harvest(rig, keyed),
    },
  }
}

const routesOf = async (rig: Rig, keyed: boolean): Promise<Route[]> => {
  const { paths } = (await (
    await rig.fetch('/openapi.json', { headers: keyed ? { authorization: 'Bearer sk-ann' } : {} })
  ).json()) as { paths: Record<string, Record<string, unknown>> }
  // A stream of events has no end that could be waited for.
  delete paths['/v1/dashboard/events']
  const routes = Object.entries(paths).flatMap(([path, entry]) =>
    ['get', 'post', 'head']
      .filter((method) => method in entry)
      .map((method) => ({ method: method.toUpperCase(), path })),
  )
  const prefixed = routes
    .filter(({ path }) => path.startsWith('/v1/'))
    .map(({ method, path }) => ({ method, path: `/s/{session}${path}` }))
  return [...routes, ...prefixed, { method: 'POST', path: '/admin/{command}' }]
}

/** Sends requests one after another, so that the ids are the same in every run. */
const harvest = async (rig: Rig, keyed: boolean): Promise<Record<string, string[]>> => {
  const ids: Record<string, string[]> = {}
  const keep = (kind: string, id: unknown): void => {
    if (typeof id === 'string' && id !== '') (ids[kind] ??= []).push(id)
  }
  const tools = [{ type: 'function', function: { name: 'read', parameters: {} } }]
  const flat = [{ type: 'function', name: 'read', parameters: {} }]
  for (const key of keyed ? KEYS : ['']) {
    const headers = keyed ? { authorization: `Bearer sk-${key}` } : {}
    const said = key === 'ann' ? SECRET : 'Hi'
    for (let i = 0; i < 8; i += 1)
      for (const [path, json] of [
        ['/v1/chat/completions', { messages: [USER(`${said} ${i}`)], tools }],
        [
          '/v1/messages',
          { max_tokens: 90, messages: [USER(`${said} ${i}`)], tools: [{ name: 'read', input_schema: {} }] },
        ],
        ['/v1/responses', { input: `${said} ${i}`, tools: flat, include: ['reasoning.encrypted_content'] }],
        ['/init_trajectory', {}],
        ['/claim_episode', { client_uuid: 'client-a' }],
      ] as const) {
        const response = await rig.fetch(path, { headers, json })
        const text = await response.text()
        assert.equal(response.status, 200, `${path}: ${text}`)
        for (const [id, kind] of text.matchAll(/\b(call|toolu|msg|rs|fc|ctc|resp|sealed)[a-z2-7]{24}[0-9a-z]{1,2}\b/g))
          keep(kind!, id)
        keep('turn', response.headers.get('x-instar-turn-id'))
        keep('session', response.headers.get('x-instar-session-id'))
        const {
          trajectory_uid: trajectory,
          episode_uuid: episode,
          openai_base_url: base,
        } = JSON.parse(text) as Record<string, string>
        keep('trajectory', trajectory)
        keep('episode', episode)
        if (trajectory !== undefined)
          await (
            await rig.fetch(`/${trajectory}/1/v1/chat/completions`, { headers, json: { messages: [USER(said)] } })
          ).text()
        if (base !== undefined)
          await (
            await rig.fetch(new URL(base).pathname.concat('/chat/completions'), {
              headers,
              json: { messages: [USER(said)] },
            })
          ).text()
      }
  }
  return ids
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (how: { type: 'major'; execution: 'sync'; flavor: 'last-resort' }) => void
/** Memory on and beside the heap after garbage collection. */
const memory = async (): Promise<number> => {
  for (let i = 0; i < 3; i += 1) {
    collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

const numbersOf = async (rig: Rig, name: string, keyed: boolean): Promise<number> => {
  const text = await (await rig.fetch('/metrics', { headers: keyed ? { authorization: 'Bearer sk-ann' } : {} })).text()
  return text
    .split('\n')
    .filter((line) => line.startsWith(name))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

test(
  `${REQUESTS} malformed or hostile requests cause no crash, no internal error and no growth`,
  { timeout: 170_000 },
  async (t) => {
    const sides = [await begin(t, 'a gateway without keys', false), await begin(t, 'a gateway with keys', true)]
    const targets = sides.map(({ target }) => target)
    const failures: string[] = []
    const kinds = new Map<string, number>()
    const routes = new Map<string, number>()
    const warnings: string[] = []
    process.on('warning', ({ message }) => warnings.push(message))
    /**
     * For each turn that was answered in full: its gateway, and the digest of the sent body; null where the model name
     * was changed or the body is undefined.
     */
    const answered = new Map<string, { side: number; sha256: Buffer | null }>()

    const send = async (shot: Shot): Promise<void> => {
      const side = targets.findIndex(({ name }) => name === shot.target)
      const result = await exchange(sides[side]!.port, shot)
      const findings = findingsIn(shot, result)
      if (
        shot.key === 'sk-bob' &&
        result.answers.some(({ body }) => body.includes(SECRET)) &&
        !Buffer.concat(shot.pieces).includes(SECRET)
      )
        findings.push('a key is told what another one said')
      if (findings.length > 0 && failures.length < 5)
        failures.push(
          `${findings.join('\n')}\nINSTAR_FUZZ_SEED=${SEED} INSTAR_FUZZ_ONLY=${shot.index}, ${readable(shot)}`,
        )
      for (const answer of result.answers) {
        const kind = kindOf(answer)
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
        const turn = answer.headers.get('x-instar-turn-id')
        if (turn !== undefined && answer.whole && answer.status === 200)
          answered.set(turn, {
            side,
            sha256:
              shot.body === null || !/^\/(v1|s\/[^/]*\/v1)\//.test(shot.path)
                ? null
                : createHash('sha256').update(shot.body).digest(),
          })
      }
      if (result.answers.length > 0) routes.set(shot.route, (routes.get(shot.route) ?? 0) + 1)
    }
    const sendAll = async (from: number, to: number): Promise<void> => {
      let next = from
      await Promise.all(
        Array.from({ length: AT_ONCE }, async () => {
          while (next < to) await send(shotOf(SEED, next++, targets))
        }),
      )
    }

    if (ONLY !== undefined) {
      await send(shotOf(SEED, Number(ONLY), targets))
      assert.deepEqual(failures, [])
      return
    }
    const warm = Math.floor(REQUESTS * WARM)
    await sendAll(0, warm)
    const before = await memory()
    await sendAll(warm, REQUESTS)
    const grown = (await memory()) - before
    t.diagnostic(
      `seed ${SEED}: ${[...kinds]
        .sort(([a], [b]) => (a < b ? -1 : 1))
        .map(([kind, count]) => `${count}× ${kind}`)
        .join(', ')}`,
    )
    t.diagnostic(
      `${answered.size} turns were answered in full; the heap is ${(grown / 1024 / 1024).toFixed(2)} MiB larger than after ${warm} requests`,
    )
    assert.equal(failures.length, 0, failures.join('\n\n'))
    assert.deepEqual(warnings, [])
    if (REQUESTS >= 10_000) {
      for (const target of targets)
        for (const { method, path } of target.routes)
          assert.ok(
            (routes.get(`${method} ${path}`) ?? 0) >= 10,
            `${method} ${path} was asked ${routes.get(`${method} ${path}`)} times`,
          )
      assert.ok(grown < GROWTH_BYTES, `${grown} bytes more`)
      assert.ok(answered.size > REQUESTS / 20, `${answered.size} answers`)
    }

    for (const [i, { rig, engine }] of sides.entries()) {
      const headers = i === 0 ? {} : { authorization: 'Bearer sk-ann' }
      const normal = await rig.fetch('/v1/chat/completions', {
        headers,
        json: { model: 'policy', messages: [USER('Hi')], stream: true },
      })
      assert.equal(normal.status, 200)
      assert.ok((await normal.text()).endsWith('data: [DONE]\n\n'))
      assert.equal(await numbersOf(rig, 'instar_request_errors_total{code="internal"}', i === 1), 0)
      assert.equal(engine.inside, 0)
      const status = await rig.fetch('/admin/status', { headers })
      const { requests, head, serving } = (await status.json()) as {
        requests: { running: number }
        head: number
        serving: number
      }
      assert.equal(status.status, 200)
      assert.deepEqual([requests.running, serving], [0, head])
      await rig.stop()

      const turns = initialTurns()
      const weights = initialWeights()
      const positions = new Map<string, { partition: number; offset: number }>()
      const ignored = new Map<string, number>()
      for await (const records of rig.log.read('turns'))
        for (const record of records) {
          const { event, id } = decodeRecord(record)
          const outcome = foldTurns(turns, { ...record, id, event } as Logged<TurnsEvent>)
          if (!outcome.counted) ignored.set(outcome.why, (ignored.get(outcome.why) ?? 0) + 1)
          if ('turn' in event && event.turn !== null && event.type !== 'FeedbackGiven')
            positions.set(event.turn, record)
        }
      for await (const records of rig.log.read('weights'))
        for (const record of records)
          foldWeights(weights, { ...record, ...decodeRecord(record) } as Logged<WeightsEvent>)
      assert.equal(weights.lines.get('policy')?.head, head)
      const reader = createTurnReader(rig.log, (turn) => positions.get(turn))
      for (const [turn, { status }] of turns.turns) {
        const body = await reader.body(turn)
        await reader.promptIds(turn)
        const record = await reader.record(turn)
        if (record.tokens === 'exact') assert.equal(record.ids.length, record.logprobs.length)
        const sent = answered.get(turn)
        if (sent === undefined) continue
        assert.equal(status, 'complete', turn)
        if (sent.sha256 && record.dialect !== 'responses')
          assert.deepEqual(createHash('sha256').update(body).digest(), sent.sha256, `the body of ${turn}`)
      }
      for (const [turn, { side }] of answered)
        if (side === i) assert.ok(turns.turns.has(turn), `${turn} was answered and is not on the log`)
      t.diagnostic(
        `${turns.turns.size} turns of ${turns.sessions.size} sessions on the log${ignored.size > 0 ? `; ignored: ${JSON.stringify([...ignored])}` : ''}`,
      )
    }
  },
)
