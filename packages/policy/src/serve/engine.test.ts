/** The serving engine with the real runtime on a small random model. */
import { after, before, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import type { Constraint, GenerateRequest, GeneratedToken, Model, ServingEngine } from '@instar/engine/port'
import { openModel, startServing } from '../index.ts'
import { CONFIG, randomAdapter, writeRandomModel } from '../../../../test/kit/random-model.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'instar-serving-'))
let model: Model
let engine: ServingEngine
const adapters = [1, 2, 3, 4, 5].map((seed) => randomAdapter(seed))

before(async () => {
  writeRandomModel(folder)
  model = await openModel(folder)
  engine = await startServing({
    model: folder,
    rows: 4,
    slots: 2,
    queue: 60,
    prefillBusy: 16,
    prefillIdle: 64,
    threads: 1,
  })
  for (const adapter of adapters.slice(0, 4)) await engine.load(adapter)
})
after(async () => {
  await engine.close()
  rmSync(folder, { recursive: true, force: true })
})

const request = (text: string, seed: number, adapter: string | null, maxTokens = 20): GenerateRequest => ({
  prompt: model.promptIds([{ role: 'user', content: text }], {}),
  adapter,
  topLogprobs: 2,
  sampling: { temperature: 0.8, topP: 1, topK: 0, seed, maxTokens, stop: [] },
})

async function answer(
  given: GenerateRequest,
  signal?: AbortSignal,
): Promise<{ tokens: GeneratedToken[]; text: string; reason: string }> {
  const tokens: GeneratedToken[] = []
  let text = ''
  for await (const piece of engine.generate(given, signal)) {
    if (piece.type === 'end') return { tokens, text: text + piece.text, reason: piece.reason }
    if (piece.type === 'text') continue
    tokens.push(...piece.tokens)
    text += piece.tokens.map((token) => token.text).join('')
  }
  throw new Error('no end')
}

const code = (expected: string) => (error: unknown) => error instanceof InstarError && error.code === expected
const ids = (tokens: readonly GeneratedToken[]) => tokens.map((token) => token.id)

describe('serving on the real runtime', () => {
  test('a row of a batch does not depend on the other rows', async () => {
    const all = Array.from({ length: 20 }, (_, i) =>
      request(
        `${'word '.repeat(1 + ((i * 7) % 13))}${i}`,
        i,
        i % 5 === 4 ? null : adapters[i % 4]!.sha256,
        5 + ((i * 3) % 20),
      ),
    )
    const alone = []
    for (const each of all) alone.push(await answer(each))
    const together = await Promise.all(all.map((each) => answer(each)))
    for (const [i, result] of together.entries()) {
      assert.deepEqual(ids(result.tokens), ids(alone[i]!.tokens))
      assert.equal(result.text, alone[i]!.text)
      for (const [t, token] of result.tokens.entries())
        assert.ok(Math.abs(token.logprob - alone[i]!.tokens[t]!.logprob) < 1e-4)
    }
    const [first, second] = [together[0]!, await answer({ ...all[0]!, adapter: adapters[1]!.sha256 })]
    assert.notDeepEqual(ids(first.tokens), ids(second.tokens))
  })

  test('log-probs of sampled tokens equal those of score', async () => {
    for (const adapter of [null, adapters[0]!.sha256, adapters[3]!.sha256]) {
      const given = request('Tell me something long, please.', 7, adapter, 30)
      const { tokens } = await answer(given)
      const scored = await engine.score({ prompt: given.prompt, completion: ids(tokens), adapter, temperature: 0.8 })
      assert.equal(scored.length, tokens.length)
      for (const [t, token] of tokens.entries())
        assert.ok(Math.abs(token.logprob - scored[t]!) < 1e-4, `${token.logprob} against ${scored[t]}`)
      for (const token of tokens) {
        assert.equal(token.top.length, 2)
        assert.ok(token.top[0]!.logprob >= token.top[1]!.logprob && token.top[0]!.logprob >= token.logprob - 1e-9)
      }
    }
  })

  test('a conversation from the cache gives the same as a new engine', async () => {
    const opening = request('one two three four five six seven', 1, adapters[2]!.sha256, 12)
    const { tokens } = await answer(opening)
    const next = {
      ...request('x', 2, adapters[2]!.sha256, 12),
      prompt: [...opening.prompt, ...ids(tokens), ...model.encode(' and then?')],
    }
    const continued = await answer(next)
    const fresh = await startServing({ model: folder, rows: 1, slots: 1, threads: 1 })
    try {
      await fresh.load(adapters[2]!)
      const expected: number[] = []
      for await (const piece of fresh.generate(next)) if (piece.type === 'tokens') expected.push(...ids(piece.tokens))
      assert.deepEqual(ids(continued.tokens), expected)
    } finally {
      await fresh.close()
    }
  })

  test('a new adapter serves the next request, and a running answer keeps the old one, also after its unloading', async () => {
    const fifth = adapters[4]!
    const old = request('stay', 3, adapters[0]!.sha256, 120)
    const expected = await answer(old)
    const stream = engine.generate(old)[Symbol.asyncIterator]()
    const seen: number[] = []
    const first = await stream.next()
    if (!first.done && first.value.type === 'tokens') seen.push(...ids(first.value.tokens))
    assert.throws(() => engine.generate(request('new', 1, fifth.sha256)), code('unknown_adapter'))
    await engine.load(fifth)
    await engine.unload(adapters[0]!.sha256)
    assert.throws(() => engine.generate(old), code('unknown_adapter'))
    const fresh = await answer(request('new', 1, fifth.sha256, 4))
    assert.ok(fresh.tokens.length > 0)
    for (let piece = await stream.next(); !piece.done; piece = await stream.next())
      if (piece.value.type === 'tokens') seen.push(...ids(piece.value.tokens))
    assert.deepEqual(seen, ids(expected.tokens))
    await engine.load(adapters[0]!)
  })

  test('an abort or a break of the loop ends the iterator and frees the row', async () => {
    const control = new AbortController()
    let pieces = 0
    await assert.rejects(async () => {
      for await (const piece of engine.generate(request('abort me', 1, null, 200), control.signal)) {
        assert.equal(piece.type, 'tokens')
        if (++pieces === 3) control.abort()
      }
    }, code('aborted'))
    for await (const _piece of engine.generate(request('leave me', 1, null, 200))) break
    assert.deepEqual(engine.pending(), { running: 0, waiting: 0 })
    await assert.rejects(answer(request('never', 1, null), AbortSignal.abort()), code('aborted'))
    const after = await answer(request('next', 5, null, 3))
    assert.ok(after.tokens.length > 0)
  })

  test('an abort rejects a score, whether it runs or waits, and its row is free', async () => {
    const given = { prompt: [1], completion: Array.from({ length: 100 }, () => 2), adapter: null, temperature: 1 }
    const control = new AbortController()
    const scores = Array.from({ length: 6 }, () => engine.score(given, control.signal))
    assert.deepEqual(engine.pending(), { running: 4, waiting: 2 })
    control.abort()
    for (const score of scores) await assert.rejects(score, code('aborted'))
    await assert.rejects(engine.score(given, control.signal), code('aborted'))
    assert.deepEqual(engine.pending(), { running: 0, waiting: 0 })
    assert.equal((await engine.score(given)).length, 100)
  })

  test('the context size ends an answer, and a prompt without room for one is refused', async () => {
    const prompt = Array.from({ length: CONFIG.contextLength - 5 }, (_, i) => i % 256)
    const long = await answer({ ...request('', 1, null, 100), prompt })
    if (long.reason === 'length') assert.equal(long.tokens.length, 5)
    else assert.ok(model.endOfTurn.includes(long.tokens.at(-1)!.id))
    assert.throws(
      () => engine.generate({ ...request('', 1, null), prompt: [...prompt, 1, 2, 3, 4, 5] }),
      code('context_length_exceeded'),
    )
    assert.throws(() => engine.generate({ ...request('', 1, null), prompt: [CONFIG.vocabulary] }), code('bad_request'))
  })

  test('requests beyond rows and queue are refused at once, and the others are answered', async () => {
    const accepted: Promise<unknown>[] = []
    for (let i = 0; i < 64; i++) accepted.push(answer(request('crowd', i, null, 2)))
    assert.deepEqual(engine.pending(), { running: 4, waiting: 60 })
    assert.throws(() => engine.generate(request('one too many', 1, null)), code('overloaded'))
    await Promise.all(accepted)
    assert.deepEqual(engine.pending(), { running: 0, waiting: 0 })
  })

  test('a stop string is not in the answer, and characters are complete', async () => {
    const plain = await answer(request('stop', 12, null, 60))
    assert.equal(plain.text, model.decode(ids(plain.tokens)))
    const at = Math.floor(plain.text.length / 2)
    const stop = plain.text.slice(at, at + 2)
    const given = request('stop', 12, null, 60)
    const stopped = await answer({ ...given, sampling: { ...given.sampling, stop: [stop] } })
    assert.equal(stopped.text, plain.text.slice(0, plain.text.indexOf(stop)))
    assert.equal(stopped.reason, 'stop')
  })

  test('a constraint is checked in the thread without blocking the caller, and an unsupported keyword is named', async () => {
    const json = (schema: unknown): Constraint => ({
      json: { field: 'response_format', schema },
      calls: [],
      maxCalls: 1,
      insideReasoning: false,
    })
    const heavy = (name: string): Constraint =>
      json({
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 300 }, (_, i) => [`${name}${i}`, { type: 'string', maxLength: 8000 - i }]),
        ),
      })
    const turnsOf = async (checking: Promise<unknown>): Promise<number> => {
      let done = false
      const settled = checking
        .catch(() => undefined)
        .finally(() => {
          done = true
        })
      let turns = 0
      while (!done) {
        await new Promise((resolve) => {
          setImmediate(resolve)
        })
        turns++
      }
      await settled
      return turns
    }
    const refused = (field: string, says: RegExp) => (error: unknown) =>
      error instanceof InstarError &&
      error.code === 'bad_request' &&
      error.details['field'] === field &&
      says.test(error.message)
    assert.ok((await turnsOf(engine.check!(heavy('a')))) > 100)
    await assert.rejects(engine.check!(heavy('a')), refused('response_format', /too large/))
    await assert.rejects(engine.check!(json({ not: {} })), refused('response_format', /"not" at #/))
    await assert.rejects(
      engine.check!(json({ enum: ['x'.repeat(600_000)] })),
      refused('response_format', /larger than 512 KiB/),
    )
    await assert.rejects(
      engine.check!({
        json: null,
        calls: [{ name: 'f', parameters: { properties: { a: { type: 'text' } } } }],
        maxCalls: 1,
        insideReasoning: false,
      }),
      refused('tools (f)', /#\/properties\/a\/type/),
    )
    const boolean = json({ type: 'boolean' })
    await Promise.all([engine.check!(boolean), engine.check!(boolean)])
    await engine.check!(boolean)
    assert.match((await answer({ ...request('yes or no', 5, null), constraint: boolean })).text, /^\s*(true|false)/)
  })

  test('damaged adapters are refused without an effect on others', async () => {
    const good = randomAdapter(9)
    const weights = good.weights.slice()
    weights[weights.length - 1]! ^= 1
    await assert.rejects(engine.load({ ...good, weights }), code('bad_checkpoint'))
    assert.throws(() => engine.generate(request('x', 1, good.sha256)), code('unknown_adapter'))
    assert.ok((await answer(request('still here', 1, null, 2))).tokens.length > 0)
  })

  test('closing ends open requests with an error, and a folder without a model does not start', async () => {
    const other = await startServing({ model: folder, threads: 1 })
    const open = other.generate(request('open', 1, null, 200))[Symbol.asyncIterator]()
    await open.next()
    const [rest] = await Promise.allSettled([
      (async () => {
        for (;;) if ((await open.next()).done) return
      })(),
      other.close(),
    ])
    assert.ok(rest.status === 'rejected' && code('engine_lost')(rest.reason))
    assert.throws(() => other.generate(request('late', 1, null)), code('engine_lost'))
    await assert.rejects(startServing({ model: path.join(folder, 'nothing') }), code('bad_checkpoint'))
  })
})
