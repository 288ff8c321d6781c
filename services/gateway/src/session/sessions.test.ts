import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contentSha, subjectOfSession, type TurnAborted, type TurnCaptured } from '@instar/events'
import { createTurnReader, openMemoryLog, type EventLog } from '@instar/log'
import { eventsOf, model, startRig, turnOf, turnsOf, USER, withAppend, type Rig } from '../../../../test/kit/gateway.ts'
import { gate } from '../../../../test/kit/scripted-engine.ts'

type Message = { role: string; content: unknown; [key: string]: unknown }
type Asked = { text: string; message: Message; session: string; turn: TurnCaptured | TurnAborted; body: string }

const ask = async (
  rig: Rig,
  messages: Message[],
  { headers = {}, body = {} }: { headers?: Record<string, string>; body?: object } = {},
): Promise<Asked> => {
  const sent = JSON.stringify({ model: 'policy', messages, ...body })
  const response = await rig.fetch('/v1/chat/completions', { method: 'POST', body: sent, headers })
  assert.equal(response.status, 200)
  const {
    choices: [choice],
  } = (await response.json()) as { choices: { message: Message }[] }
  const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
  assert.equal(turn.session, response.headers.get('x-instar-session-id'))
  return { text: String(choice!.message.content), message: choice!.message, session: turn.session, turn, body: sent }
}

/** Every answer differs, so that each can be found by itself. */
const counting = () => {
  let n = 0
  return () => `Answer number ${(n += 1)} of this test, said once.`
}

/** A turn as on the log, with its references resolved. */
const readBack = async (log: EventLog, turn: string): Promise<{ body: string; prompt: number[]; ids: number[] }> => {
  const places = new Map<string, { partition: number; offset: number }>()
  const { decodeRecord } = await import('@instar/events')
  for await (const batch of log.read('turns'))
    for (const record of batch) {
      const { event } = decodeRecord(record)
      if (event.type === 'TurnCaptured' || event.type === 'TurnAborted') places.set(event.turn, record)
    }
  const reader = createTurnReader(log, (id) => places.get(id))
  return {
    body: Buffer.from(await reader.body(turn)).toString(),
    prompt: await reader.promptIds(turn),
    ids: (await reader.record(turn)).ids,
  }
}

test('x-session-id labels a session: readable ids stay, others are hashed, and ids of the gateway are recognised', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const first = await ask(rig, [USER('Hi')], { headers: { 'x-session-id': 'desk-1' } })
    assert.equal(first.session, 'desk-1')
    assert.equal(first.turn.labelSource, 'header')
    const odd = await ask(rig, [USER('Hi')], { headers: { 'x-session-id': 'a.b\tc:0' } })
    assert.match(odd.session, /^[0-9a-f]{32}$/)
    assert.equal((await ask(rig, [USER('Hi')], { headers: { 'x-session-id': 'a.b\tc:0' } })).session, odd.session)
    const fresh = await ask(rig, [USER('Hi')])
    assert.equal(
      (await ask(rig, [USER('Other')], { headers: { 'x-session-id': fresh.session } })).session,
      fresh.session,
    )
    const segment = await rig.fetch('/s/by-url/v1/chat/completions', {
      json: { model: 'policy', messages: [USER('Hi')] },
    })
    assert.equal(segment.headers.get('x-instar-session-id'), 'by-url')
  } finally {
    await rig.stop()
  }
})

test('headers and fields that agents send label a session', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const labelled: [Record<string, string>, object, string][] = [
      [{ 'x-claude-code-session-id': 'cc-1' }, {}, 'cc-1'],
      [{ 'x-claude-code-session-id': 'cc-1', 'x-claude-code-agent-id': 'a7' }, {}, 'cc-1-a7'],
      [{ 'session-id': 's-1', 'thread-id': 't-1' }, {}, 't-1'],
      [{ session_id: 's_2' }, {}, 's_2'],
      [{ 'x-session-affinity': 'ses_abc' }, {}, 'ses_abc'],
      [{}, { prompt_cache_key: 'ses_01hq3n5z' }, 'ses_01hq3n5z'],
      [{}, { metadata: { session_id: 'm-1' } }, 'm-1'],
    ]
    for (const [headers, body, session] of labelled) {
      const { turn } = await ask(rig, [USER('Hi')], { headers, body })
      assert.equal(turn.session, session)
      assert.equal(turn.labelSource, 'agent')
    }
    const begot: [Record<string, string>, string, string][] = [
      [{ 'x-claude-code-session-id': 'cc-2', 'x-claude-code-agent-id': 'b1' }, 'cc-2-b1', 'cc-2'],
      [
        {
          'session-id': 's-2',
          'thread-id': 't-2',
          'x-openai-subagent': 'collab_spawn',
          'x-codex-parent-thread-id': 's-2',
        },
        't-2',
        's-2',
      ],
      [{ 'x-session-id': 'ses_child', 'x-parent-session-id': 'ses_parent' }, 'ses_child', 'ses_parent'],
    ]
    for (const [headers, session] of [...begot, ...begot])
      assert.equal((await ask(rig, [USER('Look it up')], { headers })).turn.session, session)
    const links = (await eventsOf(rig.log)).flatMap((event) =>
      event.type === 'SessionLinked' ? [[event.session, event.parent]] : [],
    )
    assert.deepEqual(
      links,
      [['cc-1-a7', 'cc-1'], ...begot.map(([, session, parent]) => [session, parent])],
      "a subagent's session is linked to the one that begot it, once",
    )
  } finally {
    await rig.stop()
  }
})

for (const key of [
  'my-app',
  '0194f0c2-5a77-7d3e-9c3b-111122223333',
  'user-0194f0c2-5a77-7d3e-9c3b-111122223333',
  'agents-sdk:run:0194f0c25a777d3e9c3b111122223333',
]) {
  test(`conversations with the shared prompt_cache_key ${key} are separate sessions, each joined by its own answers`, async () => {
    const rig = await startRig({ script: () => 'Done.' })
    try {
      const body = { prompt_cache_key: key }
      const first = [USER('Water the plants.')]
      const other = [USER('Feed the cat.')]
      const a = await ask(rig, first, { body })
      const b = await ask(rig, other, { body })
      const said = { role: 'assistant' as const, content: 'Done.' }
      const a2 = await ask(rig, [...first, said, USER('No, the plants are dry.')], { body })
      const b2 = await ask(rig, [...other, said, USER('Thank you.')], { body })
      assert.deepEqual([a.turn.labelSource, b.turn.labelSource], ['fingerprint', 'fingerprint'])
      assert.notEqual(a.session, b.session)
      assert.deepEqual([a2.session, b2.session], [a.session, b.session])
    } finally {
      await rig.stop()
    }
  })
}

test('two users with the same first message are two sessions', async () => {
  const rig = await startRig({ script: () => 'Paris.' })
  try {
    const [a, b] = [await ask(rig, [USER('Capital of France?')]), await ask(rig, [USER('Capital of France?')])]
    assert.notEqual(a.session, b.session)
    assert.equal(a.turn.labelSource, 'fingerprint')
    const c = await ask(rig, [
      USER('Capital of France?'),
      { role: 'assistant', content: 'Paris.' },
      USER('And of Spain?'),
    ])
    const d = await ask(rig, [
      USER('Capital of France?'),
      { role: 'assistant', content: 'Paris.' },
      USER('And of Italy?'),
    ])
    assert.deepEqual(new Set([c.session, d.session]), new Set([a.session, b.session]), 'each goes on once')
    assert.equal(c.turn.labelSource, 'answer')
  } finally {
    await rig.stop()
  }
})

test('a short answer that other conversations have too does not join a conversation that shares nothing else', async () => {
  const rig = await startRig({ script: () => 'Yes.' })
  try {
    const mine = await ask(rig, [USER('Is water wet?')])
    const theirs = await ask(rig, [USER('Do fish swim?'), { role: 'assistant', content: 'Yes.' }, USER('Why?')])
    assert.notEqual(theirs.session, mine.session)
    assert.equal(theirs.turn.labelSource, 'fingerprint')
  } finally {
    await rig.stop()
  }
})

test('a conversation with foreign answers keeps one session, found by its beginning', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const begin: Message[] = [
      { role: 'system', content: 'Be brief.' },
      USER('Hello'),
      { role: 'assistant', content: 'Somebody else said this.' },
    ]
    const one = await ask(rig, [...begin, USER('Go on')])
    const two = await ask(rig, [
      ...begin,
      USER('Go on'),
      { role: 'assistant', content: 'and rewrote that' },
      USER('More'),
    ])
    assert.equal(one.session, two.session)
    assert.equal(one.turn.offPrefix, true)
    const other = await ask(rig, [
      begin[0]!,
      USER('Hello'),
      { role: 'assistant', content: 'Another beginning.' },
      USER('Go on'),
    ])
    assert.notEqual(other.session, one.session)
  } finally {
    await rig.stop()
  }
})

test('few-shot examples before the first message do not merge conversations, and a repeated request is the same session', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const examples: Message[] = [
      { role: 'system', content: 'Edit files.' },
      USER('Change the greeting.'),
      { role: 'assistant', content: 'Ok, I will.' },
      USER('I switched to another code base.'),
      { role: 'assistant', content: 'Ok.' },
    ]
    const one = await ask(rig, [...examples, USER('Add a test.')])
    const two = await ask(rig, [...examples, USER('Fix the build.')])
    const again = await ask(rig, [...examples, USER('Fix the build.')])
    assert.notEqual(two.session, one.session)
    assert.equal(again.session, two.session)
    const next = await ask(rig, [
      ...examples,
      USER('Add a test.'),
      { role: 'assistant', content: one.text },
      USER('Thanks.'),
    ])
    assert.deepEqual([next.session, next.turn.labelSource], [one.session, 'answer'])
  } finally {
    await rig.stop()
  }
})

test('a conversation that alternates between two gateways is one session, and its prompts extend each other exactly', async () => {
  const log = openMemoryLog()
  const script = counting()
  const [a, b] = [await startRig({ log, script }), await startRig({ log, script })]
  try {
    const messages: Message[] = [{ role: 'system', content: 'You are terse.' }, USER('What is a log?')]
    const asked: Asked[] = []
    for (let i = 0; i < 12; i += 1) {
      const one = await ask(i % 2 === 0 ? a : b, messages)
      asked.push(one)
      // Clients send the text back as parts, or trimmed.
      messages.push(
        i % 3 === 0
          ? { role: 'assistant', content: [{ type: 'text', text: one.text }] }
          : { role: 'assistant', content: one.text },
        USER(`Question ${i} <|im_end|> about it`),
      )
    }
    assert.equal(new Set(asked.map(({ session }) => session)).size, 1)
    let earlier: number[] = []
    for (const [i, { turn, body }] of asked.entries()) {
      assert.equal(turn.labelSource, i === 0 ? 'fingerprint' : 'answer')
      assert.equal(turn.offPrefix, false)
      const stored = await readBack(log, turn.turn)
      assert.equal(stored.body, body)
      assert.deepEqual(stored.prompt.slice(0, earlier.length), earlier)
      earlier = [...stored.prompt, ...stored.ids]
      assert.equal(turn.after === null, i === 0)
      assert.equal(turn.stateFrom, i === 0 ? 0 : 1 + 2 * i)
    }
    assert.ok(asked.at(-1)!.turn.prompt.ids.length < 60, 'only what is new is stored')
    assert.ok(
      asked.some(({ turn }, i) => i > 0 && turn.body.from === null),
      'a full copy once in a while',
    )
  } finally {
    await Promise.all([a.stop(), b.stop()])
  }
})

test('the other gateway waits until it has read the answer that a request continues', async () => {
  const log = openMemoryLog()
  const held = gate()
  let reading = false
  // The second gateway reads `turns` only when the test allows it.
  const slow = new Proxy(log, {
    get(target, name) {
      if (name === 'subscribe') {
        return (options: Parameters<EventLog['subscribe']>[0]) =>
          target.subscribe({
            ...options,
            handle: async (records) => {
              if (reading && options.topics.includes('turns')) await held.passed
              await options.handle(records)
            },
          })
      }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  const [a, b] = [
    await startRig({ log, script: counting() }),
    await startRig({ log: slow, script: counting(), settings: { tailWaitMs: 5000 } }),
  ]
  try {
    reading = true
    const first = await ask(a, [USER('Hop')])
    const second = ask(b, [USER('Hop'), first.message, USER('Go on')])
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.equal(b.engine.requests.length, 0)
    held.open()
    assert.equal((await second).session, first.session)
  } finally {
    held.open()
    await Promise.all([a.stop(), b.stop()])
  }
})

test('forty users with the same answer continue in their own sessions on the other gateway', async () => {
  const log = openMemoryLog()
  const [a, b] = [
    await startRig({ log, script: () => 'I do not know.' }),
    await startRig({ log, script: () => 'I do not know.' }),
  ]
  try {
    const people = Array.from({ length: 40 }, (_, i) => [USER(`Case ${i}: what now?`)])
    const first = await Promise.all(people.map((said) => ask(a, said)))
    const second = await Promise.all(people.map((said, i) => ask(b, [...said, first[i]!.message, USER('And then?')])))
    assert.deepEqual(
      second.map(({ session }) => session),
      first.map(({ session }) => session),
    )
    assert.equal(new Set(second.map(({ session }) => session)).size, 40)
  } finally {
    await Promise.all([a.stop(), b.stop()])
  }
})

test('an unlabelled request does not wait for a log that is behind without end', async () => {
  const log = openMemoryLog()
  const never = gate()
  const stuck = withSubscribe(log, never.passed)
  const rig = await startRig({ log: stuck.log, script: counting(), settings: { tailWaitMs: 100 } })
  try {
    stuck.hold()
    await ask(rig, [USER('One')])
    const begun = performance.now()
    const { turn } = await ask(rig, [USER('Hop'), { role: 'assistant', content: 'Who said that?' }, USER('Go on')])
    assert.equal(turn.labelSource, 'fingerprint')
    assert.ok(performance.now() - begun < 2000)
  } finally {
    never.open()
    await rig.stop()
  }
})

const withSubscribe = (log: EventLog, passed: Promise<void>): { log: EventLog; hold: () => void } => {
  let holding = false
  const proxy = new Proxy(log, {
    get(target, name) {
      if (name === 'subscribe')
        return (options: Parameters<EventLog['subscribe']>[0]) =>
          target.subscribe({
            ...options,
            handle: async (records) => {
              if (holding) await passed
              await options.handle(records)
            },
          })
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  return {
    log: proxy,
    hold: () => {
      holding = true
    },
  }
}

test('an answer with other blanks is recognised, and a rewritten one makes the turn off-prefix', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const headers = { 'x-session-id': 'blanks' }
    const one = await ask(rig, [USER('Hi')], { headers })
    const two = await ask(rig, [USER('Hi'), { role: 'assistant', content: `\n ${one.text}  ` }, USER('Go on')], {
      headers,
    })
    assert.equal(two.turn.offPrefix, false)
    const three = await ask(rig, [USER('Hi'), { role: 'assistant', content: one.text.toUpperCase() }, USER('Go on')], {
      headers,
    })
    assert.equal(three.turn.offPrefix, true)
    const moved = await ask(
      rig,
      [{ role: 'system', content: 'Today is Monday.' }, USER('Hi'), one.message, USER('Go on')],
      { headers },
    )
    assert.equal(moved.turn.offPrefix, true, 'what stands before the answer changed')
  } finally {
    await rig.stop()
  }
})

test('a retry has the same session and digest, whatever its sampling settings', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const first = await ask(rig, [USER('Hi')], { headers: { 'x-session-id': 'retry' } })
    const again = await ask(rig, [USER('Hi')], { headers: { 'x-session-id': 'retry' }, body: { seed: 5 } })
    assert.equal(first.turn.digest, again.turn.digest)
    assert.notEqual(first.turn.turn, again.turn.turn)
    assert.equal(again.turn.kind, 'main')
  } finally {
    await rig.stop()
  }
})

test('after a cut answer the same continuation is in the same session', async () => {
  let fail = true
  const rig = await startRig({
    script: (_, prompt) =>
      prompt.includes('thanks') && fail
        ? {
            text: 'Never said in full.',
            before: (i) => {
              if (i === 2) throw new Error('lost')
            },
          }
        : 'A shared answer.',
  })
  try {
    const [a, b] = [await ask(rig, [USER('Tell me')]), await ask(rig, [USER('Tell me')])]
    const go = [USER('Tell me'), { role: 'assistant', content: 'A shared answer.' }, USER('thanks')]
    const cut = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: go } })
    assert.equal(cut.status, 500)
    fail = false
    const again = await ask(rig, go)
    const turns = (await turnsOf(rig.log)).filter(({ digest }) => digest === again.turn.digest)
    assert.equal(turns.length, 2)
    assert.equal(turns[0]!.session, turns[1]!.session)
    assert.ok([a.session, b.session].includes(again.session))
  } finally {
    await rig.stop()
  }
})

test('a first request that was cut and is repeated without a label is one session, and of another user it is not', async () => {
  let lives = 2
  const rig = await startRig({
    script: () =>
      lives-- > 0
        ? {
            text: 'Never said in full.',
            before: (i) => {
              if (i === 2) throw new Error('lost')
            },
          }
        : 'Said in full.',
  })
  try {
    const post = (body: object): Promise<Response> =>
      rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Tell me')], ...body } })
    assert.equal((await post({ user: 'ann' })).status, 500)
    assert.equal((await post({ user: 'ann' })).status, 500)
    const bob = await ask(rig, [USER('Tell me')], { body: { user: 'bob' } })
    const ann = await ask(rig, [USER('Tell me')], { body: { user: 'ann' } })
    const another = await ask(rig, [USER('Tell me')], { body: { user: 'ann' } })
    const turns = await turnsOf(rig.log)
    assert.deepEqual([turns[0]!.session, turns[1]!.session], [ann.session, ann.session])
    assert.equal(new Set([ann.session, bob.session, another.session]).size, 3)
  } finally {
    await rig.stop()
  }
})

test('the subject is the user field, else the key, else the session', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const [ann, annAgain, bob, none] = [
      await ask(rig, [USER('Hi')], { body: { user: 'ann' } }),
      await ask(rig, [USER('Ho')], { body: { user: 'ann' } }),
      await ask(rig, [USER('Hi')], { body: { user: 'bob' } }),
      await ask(rig, [USER('Hi')]),
    ]
    assert.equal(ann.turn.subject, annAgain.turn.subject)
    assert.equal(new Set([ann, bob, none].map(({ turn }) => turn.subject)).size, 3)
    assert.equal(none.turn.subject, subjectOfSession(none.turn.session))
    assert.doesNotMatch(ann.turn.subject, /ann/)
  } finally {
    await rig.stop()
  }
})

test('a request without tools in a session with tools is a side turn', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const tools = [{ type: 'function', function: { name: 'read', parameters: { type: 'object', properties: {} } } }]
    const headers = { 'x-session-id': 'tools' }
    const main = await ask(rig, [USER('Hi')], { headers, body: { tools } })
    assert.equal(main.turn.kind, 'main')
    const title = await ask(rig, [{ role: 'system', content: 'Write a title.' }, USER('Hi')], { headers })
    assert.equal(title.turn.kind, 'side')
    assert.equal(title.turn.reason, 'side')
    const next = await ask(rig, [USER('Hi'), main.message, USER('Go on')], { headers, body: { tools } })
    assert.equal(next.turn.kind, 'main')
    const plain = await ask(rig, [USER('Hi')], { headers: { 'x-session-id': 'no-tools' } })
    assert.equal(
      (await ask(rig, [USER('Hi'), plain.message, USER('Go on')], { headers: { 'x-session-id': 'no-tools' } })).turn
        .kind,
      'main',
    )
  } finally {
    await rig.stop()
  }
})

test('a session that the index evicted is read from the log again', async () => {
  const rig = await startRig({ script: counting(), settings: { sessions: 3 } })
  try {
    const headers = { 'x-session-id': 'old' }
    const one = await ask(rig, [USER('Hi')], { headers })
    const two = await ask(rig, [USER('Hi'), one.message, USER('Go on')], { headers })
    for (let i = 0; i < 6; i += 1) await ask(rig, [USER('Filler')], { headers: { 'x-session-id': `filler-${i}` } })
    const status = (await (await rig.fetch('/admin/status')).json()) as {
      index: { sessions: number; forgotten: number }
    }
    assert.deepEqual({ ...status.index, turns: 0 }, { sessions: 3, turns: 0, forgotten: 4 })
    const three = await ask(rig, [USER('Hi'), one.message, USER('Go on'), two.message, USER('And on')], { headers })
    assert.equal(three.turn.offPrefix, false)
    assert.equal(three.turn.prompt.from, two.turn.turn)
    assert.equal(three.turn.body.from, two.turn.turn)
    const feedback = await rig.fetch('/v1/feedback', { json: { session_id: 'filler-0', value: 1 } })
    assert.equal(feedback.status, 200)
  } finally {
    await rig.stop()
  }
})

test('a body on the log has the digest of the sent body', async () => {
  const rig = await startRig({ script: counting() })
  try {
    const { turn, body } = await ask(rig, [USER('Größe — naïve 🙂')])
    assert.equal(turn.body.sha256, contentSha(Buffer.from(body)))
    assert.equal(turn.body.length, Buffer.byteLength(body))
    assert.deepEqual((await readBack(rig.log, turn.turn)).prompt, model.promptIds([USER('Größe — naïve 🙂')], {}))
  } finally {
    await rig.stop()
  }
})

test('a gateway that starts on a log continues its sessions', async () => {
  const log = openMemoryLog()
  const script = counting()
  const before = await startRig({ log: withAppend(log, (_, next) => next()), script })
  const one = await ask(before, [USER('Remember me')])
  await before.stop()
  const rig = await startRig({ log, script })
  try {
    const two = await ask(rig, [USER('Remember me'), one.message, USER('Go on')])
    assert.equal(two.session, one.session)
    assert.equal(two.turn.offPrefix, false)
  } finally {
    await rig.stop()
  }
})
