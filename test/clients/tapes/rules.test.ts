/**
 * Rules that no tape tests alone, since agents send several signs of one fact: tapes with all signs but one removed, or
 * with changes that other clients were seen to make.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { replay, tapeNamed } from './replay.ts'
import type { Became, Request } from './tape.ts'

type Body = Record<string, unknown>
const changed = (requests: readonly Request[], change: (request: Request, at: number) => Partial<Request>): Request[] =>
  requests.map((request, at) => ({ ...request, ...change(request, at) }))
const withText = (request: Request, change: (text: string) => string): Pick<Request, 'body'> => ({
  body: JSON.parse(change(JSON.stringify(request.body))) as unknown,
})
const without = (headers: Record<string, string>, ...names: string[]): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name)))
const of = <K extends keyof Became>(became: readonly Became[], field: K): Became[K][] =>
  became.map((turn) => turn[field])

const CODEX_WORDS = 'You are performing a CONTEXT CHECKPOINT COMPACTION'
const CODEX_NAMES = ['thread-id', 'session-id', 'x-client-request-id', 'x-codex-window-id', 'x-codex-turn-metadata']

test('a compaction of Codex with other words and with tools is recognised by its header', async () => {
  const { requests, became } = tapeNamed('codex.compaction')
  const { tools } = requests[0]!.body as Body
  const sent = changed(requests, (request) => {
    const { body } = withText(request, (text) => text.replace(CODEX_WORDS, 'Now sum it up'))
    return { body: { ...(body as Body), tools } }
  })
  assert.ok(JSON.stringify(requests).includes(CODEX_WORDS))
  assert.deepEqual(of(await replay(sent), 'kind'), of(became, 'kind'))
})

test('a compaction of Claude Code with other words is recognised by its header', async () => {
  const { requests, became } = tapeNamed('claude.compaction')
  const sent = changed(requests, (request) =>
    withText(request, (text) => text.replace('CRITICAL: Respond with TEXT ONLY', 'Now sum it up')),
  )
  assert.ok(JSON.stringify(requests).includes('CRITICAL: Respond with TEXT ONLY'))
  assert.deepEqual(of(await replay(sent), 'kind'), of(became, 'kind'))
})

test('a compaction of Codex with other words and no header is recognised by the absence of all tools', async () => {
  const { requests, became } = tapeNamed('codex.compaction')
  const sent = changed(requests, (request) => ({
    headers: without(request.headers, 'x-codex-turn-metadata'),
    ...withText(request, (text) => text.replace(CODEX_WORDS, 'Now sum it up')),
  }))
  assert.deepEqual(of(await replay(sent), 'kind'), of(became, 'kind'))
})

test('a compaction of Codex with tools and no header is recognised by its words', async () => {
  const { requests, became } = tapeNamed('codex.compaction')
  const { tools } = requests[0]!.body as Body
  const sent = changed(requests, (request) => ({
    headers: without(request.headers, 'x-codex-turn-metadata'),
    body: { ...(request.body as Body), tools },
  }))
  assert.deepEqual(of(await replay(sent), 'kind'), of(became, 'kind'))
})

test('ids of the gateway are recognised without the characters that clients remove or insert', async () => {
  const { requests, became } = tapeNamed('pi.journey')
  const sent = changed(requests, (request) =>
    withText(request, (text) =>
      text.replace(/\{call:(\d+):(\d+)\}/g, 'c_{call:$1:$2}').replaceAll('c_{call', '_-{call'),
    ),
  )
  assert.deepEqual(of(await replay(sent), 'source'), of(became, 'source'))
  assert.deepEqual(of(await replay(sent), 'next'), of(became, 'next'))
})

test('an answer that comes back without leading and trailing blanks is recognised and rendered as it was sampled', async () => {
  const { requests, became } = tapeNamed('pi.journey')
  const sent = changed(requests, (request) =>
    withText(request, (text) => text.replaceAll('&amp; blue.  "', '&amp; blue."')),
  )
  assert.notDeepEqual(sent, requests)
  assert.deepEqual(await replay(sent), became)
})

test('opaque fields that Codex returns identify the session without names, item ids, call ids and reasoning summaries', async () => {
  const { requests, became } = tapeNamed('codex.journey')
  const sent = changed(requests, (request) => {
    const { prompt_cache_key: _, client_metadata: __, ...body } = request.body as Body
    const input = (body['input'] as Body[]).map(({ id: ___, ...item }) => ({
      ...item,
      ...(item['type'] === 'reasoning' ? { summary: [] } : {}),
      ...('call_id' in item ? { call_id: 'one' } : {}),
    }))
    return { headers: without(request.headers, ...CODEX_NAMES), body: { ...body, input } }
  })
  const again = await replay(sent)
  assert.deepEqual(of(again, 'source'), ['fingerprint', 'minted', 'minted', 'minted', 'minted'])
  assert.deepEqual([of(again, 'session'), of(again, 'next')], [of(became, 'session'), of(became, 'next')])
})

test('a constant x-client-request-id does not make different requests one', async () => {
  const { requests, became } = tapeNamed('codex.journey')
  assert.deepEqual([new Set(requests.map(({ headers }) => headers['x-client-request-id'])).size, became.length], [1, 5])
})

test('an agent that omits an answer and describes its fault has not continued from it', async () => {
  const { requests } = tapeNamed('pi-with-session-headers.journey')
  const first = requests[0]!
  const { messages } = first.body as { messages: Body[] }
  const again = {
    ...first,
    body: {
      ...(first.body as Body),
      messages: [...messages, { role: 'user', content: 'Tool call error: there was none.' }],
    },
  }
  const became = await replay([first, again])
  assert.deepEqual(
    [of(became, 'session'), of(became, 'next')],
    [
      [0, 0],
      [null, null],
    ],
  )
})

test('a request may end with an answer, and an answer that the gateway did not give is no turn', async () => {
  const { requests } = tapeNamed('qwen.journey')
  const first = requests[0]!
  const { messages } = first.body as { messages: Body[] }
  const compacted = {
    ...first,
    body: {
      ...(first.body as Body),
      messages: [...messages, { role: 'assistant', content: 'Got it. Thanks for the additional context!' }],
    },
  }
  const asked = {
    ...first,
    body: {
      ...(first.body as Body),
      messages: [
        ...messages,
        { role: 'assistant', content: 'Got it. Thanks for the additional context!' },
        { role: 'user', content: 'And now?' },
      ],
    },
  }
  const became = await replay([compacted, asked])
  assert.deepEqual(
    [of(became, 'session'), of(became, 'next'), of(became, 'offPrefix')],
    [
      [0, 0],
      [null, null],
      [true, true],
    ],
  )
})

/** OpenClaw's requests without the gateway's texts, as after a compaction that keeps none of them. */
const withoutAnswers = (request: Request): Request => {
  const { messages } = request.body as { messages: Body[] }
  return {
    ...request,
    body: {
      ...(request.body as Body),
      messages: messages.filter(({ role }) => role !== 'assistant' && role !== 'tool'),
    },
  }
}

test('the session id in the prompt of OpenClaw identifies a session without other ids, and separates two that begin alike', async () => {
  const { requests } = tapeNamed('openclaw.journey')
  const [first, , second] = requests.map(withoutAnswers)
  const other = { ...first!, ...withText(first!, (text) => text.replace('sessionId=journey', 'sessionId=another')) }
  const became = await replay([first!, other, second!])
  assert.deepEqual(
    [of(became, 'session'), of(became, 'source')],
    [
      [0, 1, 0],
      ['prompt', 'prompt', 'prompt'],
    ],
  )
})

test('the same line in a prompt of another client does not label a session', async () => {
  const { requests } = tapeNamed('openclaw.journey')
  const [first, , second] = requests.map((request) => ({
    ...request,
    ...withText(withoutAnswers(request), (text) =>
      text.replace(
        '<!-- openclaw:attempt:STABLE -->\\nYou are a personal assistant running inside OpenClaw',
        'You are a helper',
      ),
    ),
  }))
  const became = await replay([first!, second!])
  assert.deepEqual(
    [of(became, 'session'), of(became, 'source')],
    [
      [0, 1],
      ['fingerprint', 'fingerprint'],
    ],
  )
})

test('a message that OpenClaw writes as the user after a fault is not trained on; the same words of other clients are', async () => {
  for (const [name, reasons] of [
    ['openclaw.dropped', ['aborted', 'contaminated', 'contaminated']],
    ['openclaw.died', [null, 'aborted', 'contaminated']],
  ] as const) {
    const { requests } = tapeNamed(name)
    assert.deepEqual(of(await replay(requests), 'reason'), reasons)
    const others = changed(requests, (request) =>
      withText(request, (text) =>
        text.replace(
          '<!-- openclaw:attempt:STABLE -->\\nYou are a personal assistant running inside OpenClaw',
          'You are a helper',
        ),
      ),
    )
    assert.deepEqual(
      of(await replay(others), 'reason'),
      reasons.map((reason) => (reason === 'contaminated' ? null : reason)),
    )
  }
})
