/** OpenTelemetry spans of real requests, recorded by a tracer provider of the test, in place of an SDK. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { EngineHttp } from '@instar/engine'
import {
  context,
  INVALID_SPAN_CONTEXT,
  propagation,
  ROOT_CONTEXT,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Attributes,
  type AttributeValue,
  type Context,
  type ContextManager,
  type Span,
  type SpanContext,
  type SpanOptions,
  type SpanStatus,
  type TextMapPropagator,
  type Tracer,
} from '@opentelemetry/api'
import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Publisher, sse, startRig, turnsOf, turnThat, USER } from '../../../../test/kit/gateway.ts'

class Kept implements Span {
  readonly attributes: Attributes
  readonly options: SpanOptions
  readonly parent: SpanContext | undefined
  readonly own: SpanContext
  name: string
  status: SpanStatus = { code: SpanStatusCode.UNSET }
  ended = 0

  constructor(name: string, options: SpanOptions, parent: SpanContext | undefined) {
    this.name = name
    this.options = options
    this.parent = parent
    this.own = {
      traceId: parent?.traceId ?? randomBytes(16).toString('hex'),
      spanId: randomBytes(8).toString('hex'),
      traceFlags: TraceFlags.SAMPLED,
    }
    this.attributes = { ...options.attributes }
  }
  spanContext(): SpanContext {
    return this.own
  }
  setAttribute(name: string, value: AttributeValue): this {
    this.attributes[name] = value
    return this
  }
  setAttributes(): this {
    return this
  }
  addEvent(): this {
    return this
  }
  addLink(): this {
    return this
  }
  addLinks(): this {
    return this
  }
  setStatus(status: SpanStatus): this {
    this.status = status
    return this
  }
  updateName(name: string): this {
    this.name = name
    return this
  }
  end(): void {
    this.ended += 1
  }
  isRecording(): boolean {
    return true
  }
  recordException(): void {
    throw new Error('an exception may quote what a person wrote')
  }
}

let spans: Kept[] = []
let sampled = true
const tracer: Tracer = {
  startSpan(name: string, options: SpanOptions = {}, context?: Context): Span {
    const parent = context && trace.getSpanContext(context)
    if (!sampled) return trace.wrapSpanContext(parent ?? INVALID_SPAN_CONTEXT)
    const span = new Kept(name, options, parent)
    spans.push(span)
    return span
  },
  startActiveSpan: () => {
    throw new Error('not used')
  },
}
const storage = new AsyncLocalStorage<Context>()
const contexts: ContextManager = {
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (at, work, self, ...args) => storage.run(at, () => work.call(self as ThisParameterType<typeof work>, ...args)),
  bind: (_, target) => target,
  enable: () => contexts,
  disable: () => contexts,
}
/** The propagator of W3C for outgoing requests; for incoming ones the gateway must read the header itself. */
const outwards: TextMapPropagator = {
  inject: (at, carrier, setter) => {
    const own = trace.getSpanContext(at)
    if (own) setter.set(carrier, 'traceparent', `00-${own.traceId}-${own.spanId}-01`)
  },
  extract: (at) => at,
  fields: () => ['traceparent'],
}
trace.setGlobalTracerProvider({ getTracer: () => tracer })
context.setGlobalContextManager(contexts)
propagation.setGlobalPropagator(outwards)
after(() => [trace, context, propagation].forEach((api) => api.disable()))

const log = openMemoryLog()
const publisher = new Publisher(log)
await publisher.start()
await publisher.publish(0)
const WORD = 'zanzibar'
const rig = await startRig({
  log,
  script: (_, prompt) =>
    prompt.includes('break')
      ? {
          text: `${WORD} and then`,
          before: (token) => {
            if (token === 2) throw new Error(`${WORD} broke`)
          },
        }
      : `A ${WORD} answer.`,
})
after(() => rig.stop())

const collect = async (work: () => Promise<void>): Promise<Kept[]> => {
  spans = []
  await work()
  return spans
}
const named = (all: readonly Kept[], name: string): Kept[] => all.filter((span) => span.name === name)

test('a request has one span with its attributes, and child spans for generation and append', async () => {
  let headers = new Headers()
  const all = await collect(async () => {
    const response = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: [USER(WORD)], user: WORD, n: 2, temperature: 0.5, stop: [`${WORD}!`] },
      headers: { 'x-session-id': 'one' },
    })
    headers = response.headers
    await response.text()
  })
  assert.equal(all.length, 5)
  const [request] = named(all, 'chat policy')
  assert.ok(request)
  assert.equal(request.parent, undefined)
  const [turn] = await turnsOf(log)
  const { 'gen_ai.usage.output_tokens': output, ...rest } = request.attributes
  assert.equal(output, 2 * turn!.ids.length)
  assert.deepEqual(rest, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'instar',
    'gen_ai.request.model': 'policy',
    'gen_ai.request.stream': false,
    'gen_ai.request.choice.count': 2,
    'gen_ai.request.temperature': 0.5,
    'instar.dialect': 'chat',
    'gen_ai.conversation.id': 'one',
    'gen_ai.response.model': 'policy@1',
    'gen_ai.response.finish_reasons': ['stop', 'stop'],
    'gen_ai.usage.input_tokens': turn!.prompt.length,
    'instar.version': 1,
    'instar.turn.id': headers.get('x-instar-turn-id'),
    'instar.turn.ids': headers.get('x-instar-turn-ids')!.split(','),
    'instar.turn.kind': 'main',
    'instar.turn.label_source': 'header',
  })
  const generated = named(all, 'generate scripted')
  const sent = named(all, 'send turns')
  assert.deepEqual([generated.length, sent.length], [2, 2])
  for (const child of [...generated, ...sent])
    assert.deepEqual([child.parent?.spanId, child.parent?.traceId], [request.own.spanId, request.own.traceId])
  assert.deepEqual(
    generated.map(({ attributes }) => attributes['instar.candidate']).toSorted((a, b) => Number(a) - Number(b)),
    [0, 1],
  )
  assert.deepEqual(
    generated.map(({ attributes }) => attributes['gen_ai.usage.output_tokens']),
    [turn!.ids.length, turn!.ids.length],
  )
  assert.ok(all.every(({ ended, status }) => ended === 1 && status.code === SpanStatusCode.UNSET))
})

test('the trace of a valid traceparent header is continued, and an invalid one begins a new trace', async () => {
  const ask = (traceparent: string) =>
    collect(async () => {
      await (
        await rig.fetch('/v1/messages', {
          json: { model: 'policy@0', max_tokens: 9, messages: [USER('Hi')] },
          headers: { traceparent, tracestate: 'vendor=1' },
        })
      ).text()
    })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const [request, ...children] = await ask(`00-${traceId}-b7ad6b7169203331-01`)
  assert.equal(request!.name, 'chat policy@0')
  assert.deepEqual(
    [
      request!.parent?.traceId,
      request!.parent?.spanId,
      request!.parent?.isRemote,
      request!.parent?.traceState?.get('vendor'),
    ],
    [traceId, 'b7ad6b7169203331', true, '1'],
  )
  assert.ok(children.length === 2 && children.every(({ own }) => own.traceId === traceId))
  assert.equal((await ask(`cc-${traceId}-b7ad6b7169203331-01-what-comes-later`))[0]!.parent?.traceId, traceId)
  for (const wrong of [
    '',
    'x',
    `ff-${traceId}-b7ad6b7169203331-01`,
    `00-${traceId}-b7ad6b7169203331-01-x`,
    `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
    `00-${traceId}-${'0'.repeat(16)}-01`,
  ])
    assert.equal((await ask(wrong))[0]!.parent, undefined, wrong)
})

test('requests to the engine carry the span of the generation', async () => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(String(request.headers['traceparent']))
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const http = new EngineHttp(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, null, {
    connectMs: 1000,
    firstByteMs: 1000,
    jsonMs: 1000,
    idleMs: 1000,
  })
  const own = await startRig({
    script: () => ({
      text: 'It asks.',
      before: async (token) => {
        if (token === 1) await http.json('POST', '/x', {})
      },
    }),
  })
  try {
    const all = await collect(async () => {
      await (await own.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })).text()
    })
    const [generated] = named(all, 'generate scripted')
    assert.deepEqual(asked, [`00-${generated!.own.traceId}-${generated!.own.spanId}-01`])
  } finally {
    http.close()
    await own.stop()
    server.close()
  }
})

test('a stream has one span until its end, and errors inside and before it have their codes', async () => {
  const whole = await collect(async () => {
    const response = await rig.fetch('/v1/responses', { json: { model: 'policy', input: 'Hi', stream: true } })
    for await (const _ of sse(response)) assert.equal(response.status, 200)
  })
  const [request] = whole
  assert.deepEqual(
    [
      request!.ended,
      request!.attributes['gen_ai.request.stream'],
      request!.attributes['gen_ai.response.finish_reasons'],
    ],
    [1, true, ['stop']],
  )
  assert.ok(Number(named(whole, 'generate scripted')[0]!.attributes['gen_ai.response.time_to_first_chunk']) > 0)

  const broken = await collect(async () => {
    for await (const _ of sse(
      await rig.fetch('/v1/chat/completions', { json: { model: 'policy', stream: true, messages: [USER('break')] } }),
    ))
      assert.ok(_)
    await turnThat(log, (turn) => turn.type === 'TurnAborted')
  })
  assert.equal(broken.length, 3)
  for (const span of [named(broken, 'chat policy')[0]!, named(broken, 'generate scripted')[0]!])
    assert.deepEqual(
      [span.ended, span.status, span.attributes['error.type']],
      [1, { code: SpanStatusCode.ERROR, message: 'internal' }, 'internal'],
    )

  const [refused, ...none] = await collect(async () => {
    await (await rig.fetch('/v1/chat/completions', { json: { model: WORD, messages: [USER('Hi')] } })).text()
  })
  assert.deepEqual(
    [none.length, refused!.name, refused!.status.code, refused!.attributes['error.type']],
    [0, 'chat', SpanStatusCode.UNSET, 'model_not_found'],
  )
})

test('no span holds text of a person or of a model', async () => {
  const all = await collect(async () => {
    for (const content of [WORD, 'break'])
      await (
        await rig.fetch('/v1/chat/completions', {
          json: {
            model: 'policy',
            messages: [USER(content)],
            user: WORD,
            metadata: { name: WORD },
            tools: [{ type: 'function', function: { name: WORD, parameters: {} } }],
          },
        })
      ).text()
    await (await rig.fetch('/v1/chat/completions', { json: { model: WORD, messages: [USER(WORD)] } })).text()
  })
  assert.equal(named(all, 'chat policy').length, 2)
  assert.equal(JSON.stringify(all).includes(WORD), false)
})

test('a request that is not sampled has no spans and the same answer', async () => {
  sampled = false
  try {
    const all = await collect(async () =>
      assert.equal(
        (await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')] } })).status,
        200,
      ),
    )
    assert.deepEqual(all, [])
  } finally {
    sampled = true
  }
})
