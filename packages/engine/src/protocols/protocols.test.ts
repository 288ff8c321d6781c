import assert from 'node:assert/strict'
import { test } from 'node:test'
import { engineAddress } from './address.ts'
import { answerBytesMax } from './answer-limits.ts'
import {
  type LogprobsByToken,
  adapterFault,
  allCertain,
  exactDefaults,
  includedSteps,
  inexactness,
  logprobsAreExact,
  sameBase,
  tokenFault,
} from './exactness.ts'
import { isTransient, refusal } from './faults.ts'
import { reopenDelayMs, routeOf } from './routing.ts'
import { llamacpp } from './llamacpp.ts'
import { sglang } from './sglang.ts'
import { vllm } from './vllm.ts'
import { usageOf, type WireRequest } from './wire.ts'

test('an address has a kind and urls, with or without /v1, with the kind once or before each url', () => {
  assert.deepEqual(engineAddress('vllm+http://a:1/v1'), { kind: 'vllm', urls: ['http://a:1'] })
  assert.deepEqual(engineAddress('sglang+http://a:1/v1, sglang+http://b:2/,http://a:1'), {
    kind: 'sglang',
    urls: ['http://a:1', 'http://b:2'],
  })
  assert.deepEqual(engineAddress('openai+https://x.example/proxy/v1/'), {
    kind: 'openai',
    urls: ['https://x.example/proxy'],
  })
  for (const wrong of ['http://a/v1', 'vllm+a:1', 'vllm+http://a,openai+http://b', 'ollama+http://a'])
    assert.throws(() => engineAddress(wrong), { code: 'bad_request' })
})

test('if a replica is removed, only its sessions move', () => {
  const replicas = ['a', 'b', 'c'].map((url) => ({ url, running: 0 }))
  const sessions = Array.from({ length: 300 }, (_, at) => `session ${at}`)
  const homes = sessions.map((session) => routeOf(replicas, session)[0]!.url)
  for (const url of ['a', 'b', 'c']) assert.ok(homes.filter((home) => home === url).length > 60)
  const remaining = replicas.filter(({ url }) => url !== 'b')
  for (const [at, session] of sessions.entries())
    if (homes[at] !== 'b') assert.equal(routeOf(remaining, session)[0]!.url, homes[at])
  assert.deepEqual(
    routeOf(
      [
        { url: 'a', running: 3 },
        { url: 'b', running: 1 },
      ],
      null,
    ).map(({ url }) => url),
    ['b', 'a'],
  )
  assert.deepEqual([0, 1, 2, 20].map(reopenDelayMs), [250, 500, 1000, 15_000])
})

test('log-probs are exact if they include the sampling steps in use', () => {
  const sampling = { temperature: 0.7, topP: 0.9, topK: 0, seed: 1, maxTokens: 1, stop: [] }
  const exact = (temperature: boolean, filters: boolean): boolean[] =>
    [sampling, { ...sampling, topP: 1 }, { ...sampling, temperature: 1, topP: 1 }, { ...sampling, temperature: 0 }].map(
      (one) => logprobsAreExact({ temperature, filters }, one),
    )
  assert.deepEqual(exact(true, true), [true, true, true, true])
  assert.deepEqual(exact(true, false), [false, true, true, true])
  assert.deepEqual(exact(false, false), [false, false, true, true])
  assert.equal(logprobsAreExact({ temperature: true, filters: true }, { ...sampling, temperature: 0.005 }), false)
  assert.deepEqual(includedSteps([-1, -2, -4], [-1.8, -2.3, -3.3], 0), { temperature: true, filters: true })
  assert.deepEqual(includedSteps([-1, -2, -4], [-1, -2, -4], -0.4), { temperature: false, filters: false })
  for (const unusable of [
    [[], []],
    [[-1], [-1]],
    [
      [-3, -3],
      [-3, -3],
    ],
  ] as const)
    assert.equal(includedSteps(unusable[0], unusable[1], 0).temperature, false)
  const defaults = { temperature: 0.6, topP: 0.95, topK: 20 }
  assert.deepEqual(exactDefaults({ temperature: true, filters: true }, defaults), defaults)
  assert.deepEqual(exactDefaults({ temperature: true, filters: false }, defaults), {
    temperature: 0.6,
    topP: 1,
    topK: 0,
  })
  assert.deepEqual(exactDefaults({ temperature: false, filters: false }, defaults), {
    temperature: 1,
    topP: 1,
    topK: 0,
  })
})

test('an answer is exact if ids, log-probs and count agree; else the reason names the difference', () => {
  const exact = {
    ids: 3,
    logprobs: 3,
    usage: { promptTokens: 1, completionTokens: 3 },
    textWithoutIds: false,
    exactLogprobs: true,
  }
  assert.equal(inexactness(exact), null)
  const reasons = [
    { ids: 0, logprobs: 0 },
    { textWithoutIds: true },
    { logprobs: 2 },
    { usage: null },
    { usage: { promptTokens: 1, completionTokens: 4 } },
    { exactLogprobs: false },
  ].map((other) => inexactness({ ...exact, ...other }))
  assert.deepEqual(reasons, [
    'no_ids',
    'no_ids',
    'no_logprobs',
    'no_token_count',
    'token_count_differs',
    'other_logprobs',
  ])
})

test('log-probs that no sampling gives are a fault, where nothing but the model chooses the tokens', () => {
  const fault = (logprob: number, free: boolean) => tokenFault({ id: 1, logprob }, 0, { vocabulary: 9, limit: 9, free })
  for (const logprob of [0, -0, 1e-4, -1e-7, -30, -64, Number.NaN])
    assert.equal(fault(logprob, true), null, `${logprob}`)
  for (const logprob of [-64.1, -999, -Infinity, 0.01, Infinity]) assert.equal(fault(logprob, true), 'bad_logprobs')
  // A grammar or a bias may force any token.
  assert.deepEqual([fault(-999, false), fault(-1001, false)], [null, 'bad_logprobs'])
  const free = { sampling: { temperature: 0.7, topP: 1, topK: 0, seed: 1, maxTokens: 9, stop: [] } }
  assert.equal(allCertain(free, { ids: 64, zeros: 64 }), true)
  const honest: [Parameters<typeof allCertain>[0], number, number][] = [
    [free, 63, 63],
    [free, 64, 63],
    [{ ...free, sampling: { ...free.sampling, temperature: 0 } }, 500, 500],
    [{ ...free, sampling: { ...free.sampling, temperature: 0.6 } }, 500, 500],
    [{ ...free, sampling: { ...free.sampling, topK: 1 } }, 500, 500],
    [{ ...free, sampling: { ...free.sampling, topP: 0.9 } }, 500, 500],
    [{ ...free, constraint: {} as never }, 500, 500],
    [{ ...free, reweighting: {} as never }, 500, 500],
  ]
  for (const [request, ids, zeros] of honest) assert.equal(allCertain(request, { ids, zeros }), false)
})

test('an adapter differs from the base by more than two measurements do; another number format is the same base', () => {
  const measured = (...logprobs: number[]): LogprobsByToken =>
    new Map(logprobs.map((logprob, id) => [`0:${id}`, logprob]))
  assert.equal(adapterFault(measured(-1, -2), measured(-1, -2), measured(-1, -2.0001)), null)
  assert.match(adapterFault(measured(-1, -2), measured(-1, -2), measured(-1, -2))!, /those of the base/)
  assert.match(adapterFault(measured(-1, -2), measured(-1, -2.01), measured(-1, -2.005))!, /those of the base/)
  assert.equal(
    adapterFault(
      measured(-1, -2),
      measured(-1, -2),
      new Map([
        ['0:0', -1],
        ['0:7', -1.9],
      ]),
    ),
    null,
    'another token is among the most likely ones',
  )
  assert.equal(sameBase(measured(-1, -2), measured(-1.1, -1.9)), true)
  assert.equal(sameBase(measured(-1, -2), measured(-2, -3)), false)
  assert.equal(sameBase(measured(-1, -2), measured()), false)
})

test('HTTP errors are transient, or name a prompt that is too long or a wrong key', () => {
  assert.deepEqual([400, 401, 404, 408, 429, 500, 503].map(isTransient), [false, false, false, true, true, true, true])
  const bodies = [
    "This model's maximum context length is 512 tokens.",
    'the request exceeds the available context size, try increasing it',
    "The input (600 tokens) is longer than the model's context length (512 tokens).",
  ]
  for (const body of bodies) assert.equal(refusal('vllm', 400, body).code, 'context_length_exceeded')
  const { message } = refusal(
    'openai',
    400,
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in the messages, 1000 in the completion).",
  )
  assert.match(message, /maximum context length is 8192 tokens/)
  assert.match(message, /prompt is too long: 9000 tokens > 8191 maximum/)
  assert.match(refusal('openai', 401, 'no').message, /INSTAR_ENGINE_KEY/)
  assert.equal(refusal('vllm', 400, 'top_k must be -1').code, 'engine_refused')
})

test('a count of tokens that is no whole number of at least 0 is not reported', () => {
  const counts = (text: string) => usageOf(JSON.parse(text))
  for (const bad of ['1e400', '-1', '1.5', '"3"', '9007199254740993e3'])
    assert.equal(counts(`{"completion_tokens":${bad}}`), null)
  assert.deepEqual(
    counts('{"completion_tokens":3,"prompt_tokens":1e400,"prompt_tokens_details":{"cached_tokens":-2}}'),
    {
      promptTokens: 0,
      completionTokens: 3,
    },
  )
})

test('an event with more ids than an answer may have bytes is an error before its tokens are made', () => {
  const most = answerBytesMax(16)
  const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 16, stop: [] }
  const request: WireRequest = {
    model: 'm',
    adapter: null,
    prompt: [1],
    sampling,
    topLogprobs: 0,
    endOfTurn: [],
    chat: null,
  }
  const events = [
    [vllm, (ids: number[]) => ({ choices: [{ token_ids: ids }] })],
    [sglang, (ids: number[]) => ({ output_ids: ids, meta_info: {} })],
    [llamacpp, (ids: number[]) => ({ tokens: ids, tokens_predicted: ids.length })],
  ] as const
  for (const [protocol, event] of events) {
    const ids = Array.from({ length: most }, () => 7)
    assert.equal(protocol.reader(request)(event(ids)).tokens.length, most)
    assert.throws(() => protocol.reader(request)(event([...ids, 7])), { code: 'engine_lost' }, protocol.kind)
  }
})
