import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { InstarError, readWritten } from '@instar/events'
import { getBlob, openMemoryLog } from '@instar/log'
import { model, sse, startRig, turnOf, turnsOf, turnThat, USER, withAppend } from '../../../../test/kit/gateway.ts'
import { gate } from '../../../../test/kit/scripted-engine.ts'

const TEXT = 'one two three four five six seven eight'
const stream = { model: 'policy', messages: [USER('count')], stream: true }
const contentOf = (line: string): string => JSON.parse(line).choices?.[0]?.delta?.content ?? ''

/** Reads a stream until the text begins with `until`. */
const readUntil = async (lines: AsyncGenerator<string>, until: string): Promise<string> => {
  let text = ''
  while (!text.startsWith(until)) {
    const next = await lines.next()
    assert.ok(!next.done, `ended with ${JSON.stringify(text)}`)
    text += contentOf(next.value)
  }
  return text
}

test('tokens are streamed at once; the last content and the finish wait for the append', async () => {
  const asked = gate()
  const durable = gate()
  const memory = openMemoryLog()
  const log = withAppend(memory, async (records, next) => {
    if (records[0]!.topic === 'turns') {
      asked.open()
      await durable.passed
    }
    return next()
  })
  const rig = await startRig({ log, script: () => TEXT })
  try {
    const response = await rig.fetch('/v1/chat/completions', { json: stream })
    const lines = sse(response)
    const ids = model.encode(TEXT)
    const allButLast = model.decode(ids.slice(0, -1))
    const early = await readUntil(lines, allButLast)
    assert.equal(early, allButLast)
    await asked.passed
    assert.deepEqual(await turnsOf(memory), [])
    const next = lines.next()
    const first = await Promise.race([
      next.then(() => 'answer'),
      new Promise((resolve) => setTimeout(resolve, 100, 'silence')),
    ])
    assert.equal(first, 'silence')
    durable.open()
    assert.equal(contentOf((await next).value!), model.decode(ids.slice(-1)))
    assert.equal((await turnsOf(memory)).length, 1)
    const rest: string[] = []
    for await (const line of lines) rest.push(line)
    assert.equal(rest.at(-1), '[DONE]')
    assert.equal(JSON.parse(rest[0]!).choices[0].finish_reason, 'stop')
  } finally {
    await rig.stop()
  }
})

test('while the log is unreachable a limited number of answers wait, the next request is refused before any work, and requests are served after its return', async () => {
  const durable = gate()
  const memory = openMemoryLog()
  let held = 0
  const two = gate()
  const log = withAppend(memory, async (records, next) => {
    if (records[0]!.topic === 'turns') {
      if (++held === 2) two.open()
      await durable.passed
    }
    return next()
  })
  const rig = await startRig({ log, script: () => TEXT, settings: { maxHeld: 2, pingMs: 20 } })
  try {
    const answers = [
      rig.fetch('/v1/chat/completions', { json: stream }).then((response) => response.text()),
      rig.fetch('/v1/chat/completions', { json: { ...stream, stream: false } }).then((response) => response.text()),
    ]
    await two.passed
    const refused = await rig.fetch('/v1/chat/completions', { json: stream })
    assert.deepEqual(
      [
        refused.status,
        refused.headers.get('retry-after'),
        ((await refused.json()) as { error: { code: string } }).error.code,
      ],
      [503, '1', 'log_full'],
    )
    assert.equal(rig.engine.requests.length, 2)
    durable.open()
    const [streamed, whole] = await Promise.all(answers)
    assert.ok(streamed!.endsWith('data: [DONE]\n\n') && whole!.includes(TEXT))
    assert.equal((await rig.fetch('/v1/chat/completions', { json: { ...stream, stream: false } })).status, 200)
  } finally {
    durable.open()
    await rig.stop()
  }
})

test('a whole answer waits for the append', async () => {
  const asked = gate()
  const durable = gate()
  const log = withAppend(openMemoryLog(), async (_, next) => {
    asked.open()
    await durable.passed
    return next()
  })
  const rig = await startRig({ log, script: () => TEXT })
  try {
    let answered = false
    const response = rig.fetch('/v1/chat/completions', { json: { ...stream, stream: false } }).then((value) => {
      answered = true
      return value
    })
    await asked.passed
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.equal(answered, false)
    durable.open()
    assert.equal((await response).status, 200)
  } finally {
    await rig.stop()
  }
})

test('a client that disconnects ends the answer, and the turn holds the sent part', async () => {
  const arrived = gate()
  const rig = await startRig({
    script: () => ({
      text: TEXT,
      before: async (i, signal) => {
        if (i !== 4) return
        arrived.open()
        await once(signal!, 'abort')
      },
    }),
  })
  try {
    const controller = new AbortController()
    const response = await rig.fetch('/v1/chat/completions', { json: stream, signal: controller.signal })
    const ids = model.encode(TEXT)
    // The fourth token is held back as the last known one.
    const got = await readUntil(sse(response), model.decode(ids.slice(0, 3)))
    await arrived.passed
    controller.abort()
    const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
    assert.ok(turn.type === 'TurnAborted')
    assert.equal(turn.why, 'client_gone')
    assert.equal(readWritten(turn.text), got)
    assert.deepEqual(turn.ids, ids.slice(0, 3))
    assert.equal(turn.logprobs.length, 3)
    assert.equal(turn.trainable, false)
    assert.equal(turn.reason, 'aborted')
    assert.equal(turn.turn, response.headers.get('x-instar-turn-id'))
    assert.equal(rig.engine.aborted, 1)
    assert.equal((await turnsOf(rig.log)).length, 1)
  } finally {
    await rig.stop()
  }
})

test('a failure of the engine inside a stream gives an error event and [DONE], and the turn is aborted', async () => {
  const rig = await startRig({
    script: () => ({
      text: TEXT,
      before: (i) => {
        if (i === 5) throw new InstarError('engine_lost', 'The thread of the model ended.')
      },
    }),
  })
  try {
    const response = await rig.fetch('/v1/chat/completions', { json: stream })
    const lines: string[] = []
    for await (const line of sse(response)) lines.push(line)
    assert.equal(lines.pop(), '[DONE]')
    assert.deepEqual(JSON.parse(lines.pop()!), {
      error: {
        message: 'The thread of the model ended. This is a temporary server error: you can retry your request.',
        type: 'server_error',
        param: null,
        code: 'engine_lost',
      },
    })
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.ok(turn.type === 'TurnAborted')
    assert.equal(turn.why, 'engine_failed')
    assert.equal(readWritten(turn.text), lines.map(contentOf).join(''))
    assert.deepEqual(turn.ids, model.encode(TEXT).slice(0, 4))
  } finally {
    await rig.stop()
  }
})

test('a lost engine makes the gateway not ready until it answers again', async () => {
  let lost = true
  const rig = await startRig({
    script: () => ({
      text: TEXT,
      before: () => {
        if (lost) throw new InstarError('engine_lost', 'The thread of the model ended.')
      },
    }),
  })
  try {
    const status = async (): Promise<number> => (await rig.fetch('/health/ready')).status
    assert.equal(await status(), 200)
    const response = await rig.fetch('/v1/chat/completions', { json: stream })
    assert.equal(response.status, 503)
    assert.equal(response.headers.get('retry-after'), '1')
    assert.equal(await status(), 503)
    lost = false
    assert.equal((await rig.fetch('/v1/chat/completions', { json: { ...stream, stream: false } })).status, 200)
    assert.equal(await status(), 200)
  } finally {
    await rig.stop()
  }
})

test('a failure of the engine before the first token is a plain error, without the message of an internal defect', async () => {
  const rig = await startRig({
    script: () => ({
      text: TEXT,
      before: () => {
        throw new Error('secret detail')
      },
    }),
  })
  try {
    for (const streamed of [true, false]) {
      const response = await rig.fetch('/v1/chat/completions', { json: { ...stream, stream: streamed } })
      assert.equal(response.status, 500)
      const body = await response.text()
      assert.equal(JSON.parse(body).error.code, 'internal')
      assert.doesNotMatch(body, /secret/)
    }
    assert.deepEqual(
      (await turnsOf(rig.log)).map(({ type, ids }) => [type, ids.length]),
      [
        ['TurnAborted', 0],
        ['TurnAborted', 0],
      ],
    )
  } finally {
    await rig.stop()
  }
})

test('a full log gives 503 with Retry-After before a stream and an error event inside one, never a whole answer', async () => {
  let full = true
  const memory = openMemoryLog()
  const log = withAppend(memory, (_, next) =>
    full ? Promise.reject(new InstarError('log_full', 'The queue is full.')) : next(),
  )
  const rig = await startRig({ log, script: () => TEXT, settings: { appendPatienceMs: 60 } })
  try {
    const whole = await rig.fetch('/v1/chat/completions', { json: { ...stream, stream: false } })
    assert.equal(whole.status, 503)
    assert.equal(whole.headers.get('retry-after'), '1')
    assert.equal(((await whole.json()) as { error: { code: string } }).error.code, 'log_full')
    const refused = await rig.fetch('/v1/chat/completions', { json: stream })
    assert.equal(refused.status, 503, 'refused at the door while the failure is fresh')
    assert.deepEqual(await turnsOf(memory), [])
    full = false
  } finally {
    await rig.stop()
  }
})

test('a log that fails during a stream prevents the end of the answer', async () => {
  const log = withAppend(openMemoryLog(), () => Promise.reject(new InstarError('log_unavailable', 'The log is away.')))
  const rig = await startRig({ log, script: () => TEXT, settings: { appendPatienceMs: 30 } })
  try {
    const lines: string[] = []
    for await (const line of sse(await rig.fetch('/v1/chat/completions', { json: stream }))) lines.push(line)
    assert.equal(lines.pop(), '[DONE]')
    assert.equal(JSON.parse(lines.pop()!).error.code, 'log_unavailable')
    const text = lines.map(contentOf).join('')
    assert.ok(TEXT.startsWith(text) && text.length < TEXT.length, text)
    assert.ok(lines.every((line) => JSON.parse(line).choices[0].finish_reason === null))
  } finally {
    await rig.stop()
  }
})

test('a log that is full for a moment delays the end of an answer only', async () => {
  let failures = 2
  const memory = openMemoryLog()
  const log = withAppend(memory, (_, next) =>
    failures-- > 0 ? Promise.reject(new InstarError('log_full', 'The queue is full.')) : next(),
  )
  const rig = await startRig({ log, script: () => TEXT, settings: { appendPatienceMs: 2000 } })
  try {
    const answer = await rig.client.chat.completions.create({ model: 'policy', messages: [USER('count')] })
    assert.equal(answer.choices[0]!.message.content, TEXT)
    assert.equal((await turnsOf(memory)).length, 1)
  } finally {
    await rig.stop()
  }
})

test('a stop ends running answers with an error event, and their turns have the reason shutdown', async () => {
  const arrived = gate()
  // Continues only after the cut: the answer could otherwise end before the stop.
  const before = async (i: number, signal: AbortSignal | undefined): Promise<void> => {
    if (i !== 3) return
    arrived.open()
    await once(signal!, 'abort')
  }
  const rig = await startRig({ script: () => ({ text: TEXT, before }) })
  const lines = sse(await rig.fetch('/v1/chat/completions', { json: stream }))
  await arrived.passed
  const stopped = rig.stop()
  const rest: string[] = []
  for await (const line of lines) rest.push(line)
  await stopped
  assert.equal(rest.pop(), '[DONE]')
  assert.equal(JSON.parse(rest.pop()!).error.code, 'stopping')
  const [turn] = await turnsOf(rig.log)
  assert.ok(turn!.type === 'TurnAborted')
  assert.equal(turn!.why, 'shutdown')
})

test('a body over 512 KiB is stored in blobs and read back byte for byte', async () => {
  const rig = await startRig({ script: () => TEXT })
  try {
    const body = JSON.stringify({ model: 'policy', messages: [USER('Hi')], metadata: { padding: 'x'.repeat(700_000) } })
    const response = await rig.fetch('/v1/chat/completions', { method: 'POST', body })
    assert.equal(response.status, 200)
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.equal(turn.body.length, body.length)
    assert.equal(turn.body.written.bytes.length, 0)
    assert.equal(Buffer.from(await getBlob(rig.log, turn.body.blob!, turn.at)).toString(), body)
  } finally {
    await rig.stop()
  }
})

test('a client that disconnects before a whole answer leaves an aborted turn without sent text', async () => {
  const arrived = gate()
  const rig = await startRig({
    script: () => ({
      text: TEXT,
      before: async (i, signal) => {
        if (i !== 4) return
        arrived.open()
        await once(signal!, 'abort')
      },
    }),
  })
  try {
    const controller = new AbortController()
    const response = rig.fetch('/v1/chat/completions', {
      json: { ...stream, stream: false },
      signal: controller.signal,
    })
    await arrived.passed
    controller.abort()
    await assert.rejects(response)
    const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
    assert.deepEqual(
      [turn.ids, readWritten(turn.text), turn.type === 'TurnAborted' && turn.why],
      [[], '', 'client_gone'],
    )
  } finally {
    await rig.stop()
  }
})

test('comments that clients skip are sent during silence', async () => {
  const stuck = gate()
  const rig = await startRig({
    script: () => ({ text: TEXT, before: (i) => (i === 0 ? stuck.passed : undefined) }),
    settings: { pingMs: 10 },
  })
  try {
    const response = await rig.fetch('/v1/chat/completions', { json: stream })
    const reader = response.body!.getReader()
    assert.equal(Buffer.from((await reader.read()).value!).toString(), ': ping\n\n')
    stuck.open()
    let text = ''
    for (let part = await reader.read(); !part.done; part = await reader.read())
      text += Buffer.from(part.value).toString()
    assert.match(text, /\[DONE\]\n\n$/)
    const answer = await rig.client.chat.completions.create({
      model: 'policy',
      messages: [USER('count')],
      stream: true,
    })
    let said = ''
    for await (const chunk of answer) said += chunk.choices[0]?.delta.content ?? ''
    assert.equal(said, TEXT)
  } finally {
    await rig.stop()
  }
})

test('a failing candidate ends all candidates of its request, and each is recorded', async () => {
  let n = 0
  const rig = await startRig({
    script: () => {
      const second = (n += 1) === 2
      return {
        text: TEXT,
        before: async (i, signal) => {
          if (second && i === 3) throw new InstarError('engine_lost', 'The thread of the model ended.')
          if (!second && i === 5) await once(signal!, 'abort')
        },
      }
    },
  })
  try {
    const response = await rig.fetch('/v1/chat/completions', { json: { ...stream, stream: false, n: 2 } })
    assert.equal(response.status, 503)
    assert.deepEqual(
      (await turnsOf(rig.log)).map((turn) => [turn.type, turn.type === 'TurnAborted' && turn.why]),
      [
        ['TurnAborted', 'engine_failed'],
        ['TurnAborted', 'engine_failed'],
      ],
    )
  } finally {
    await rig.stop()
  }
})
