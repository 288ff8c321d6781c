/**
 * Agents with a plain-text protocol: an answer comes back with text of theirs before or after it. The record of the
 * request names the answer that it continues; an answer of another conversation is never taken for it.
 */
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import {
  foldTurns,
  initialTurns,
  decodeRecord,
  type Logged,
  type TurnAborted,
  type TurnCaptured,
  type TurnsEvent,
} from '@instar/events'
import { openMemoryLog, type EventLog } from '@instar/log'
import { sha256, startRig, turnOf, USER, type Rig, type RigOptions } from '../../../../test/kit/gateway.ts'

type Message = { role: string; content: unknown; [field: string]: unknown }
type Asked = {
  turn: TurnCaptured | TurnAborted
  content: string
  calls: { id: string; type: string; function: object }[]
}

const rigOf = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  const rig = await startRig(options)
  t.after(() => rig.stop())
  return rig
}

const ask = async (
  rig: Rig,
  messages: readonly Message[],
  more: object = {},
  headers: Record<string, string> = {},
): Promise<Asked> => {
  const response = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages, ...more }, headers })
  const body = (await response.json()) as { choices: { message: { content: string; tool_calls?: Asked['calls'] } }[] }
  const { content, tool_calls: calls = [] } = body.choices[0]!.message
  return { turn: await turnOf(rig.log, response.headers.get('x-instar-turn-id')), content, calls }
}

/** The next state of each turn, as every service's fold joins them. */
const nextOf = async (log: EventLog): Promise<Map<string, string | null>> => {
  const state = initialTurns()
  for await (const batch of log.read('turns'))
    for (const record of batch) {
      foldTurns(state, { ...record, ...decodeRecord(record) } as Logged<TurnsEvent>)
    }
  return new Map([...state.turns.values()].map(({ turn, next }) => [turn, next]))
}

/** Sends these requests one after another. */
const saying = (...texts: readonly string[]) => {
  const left = [...texts]
  return () => left.shift() ?? 'Nothing more.'
}
const SAID = (content: string): Message => ({ role: 'assistant', content })
const QUESTION = [{ role: 'system', content: 'Act.' }, USER('How many are there?')]
const STEP = 'Thought: I look.\nAction: read\nAction Input: {"lines":  2}'

test('an answer with a result behind it, reasoning before it or new wording is recognised, and the request is its next state', async (t) => {
  for (const [name, wrote] of [
    ['behind', `${STEP}\nObservation: 3`],
    ['tag put back', `${STEP}\n</code>\nCalling tools:\n[{'id': 'call_1'}]`],
    ['thought', `<think>\nHm.\n</think>\n\n${STEP}`],
    ['anew', "Thought: I look.\nAction: read\nAction Input: {'lines': 2}"],
  ] as const)
    for (const labelled of [false, true]) {
      const rig = await rigOf(t, { script: saying(STEP, 'Three.') })
      const headers: Record<string, string> = labelled ? { 'x-session-id': 'desk' } : {}
      const one = await ask(rig, QUESTION, {}, headers)
      const two = await ask(rig, [...QUESTION, SAID(wrote), USER('Go on.')], {}, headers)
      assert.deepEqual([two.turn.session, two.turn.after], [one.turn.session, one.turn.answer], `${name}, ${labelled}`)
      assert.equal((await nextOf(rig.log)).get(one.turn.turn), two.turn.turn)
      assert.equal(two.turn.labelSource, labelled ? 'header' : 'answer')
      // Text after reasoning is rendered as it was sampled.
      if (name === 'thought') assert.equal(two.turn.offPrefix, false)
    }
})

test('a result behind an answer is a next state without a following message, and the answer alone is none', async (t) => {
  const rig = await rigOf(t, { script: saying(STEP, 'Three.', 'Three.') })
  const one = await ask(rig, QUESTION)
  await ask(rig, [...QUESTION, SAID(STEP.replaceAll('"', "'"))])
  assert.equal((await nextOf(rig.log)).get(one.turn.turn), null)
  const two = await ask(rig, [...QUESTION, SAID(`${STEP}\nObservation: 3`)])
  assert.equal((await nextOf(rig.log)).get(one.turn.turn), two.turn.turn)
})

test('with all steps in one message each request continues from the last step', async (t) => {
  const steps = [1, 2, 3].map((i) => `Thought: step ${i}.\nAction: read\nAction Input: {"file": ${i}}`)
  const rig = await rigOf(t, { script: saying(...steps, 'Bye.') })
  const turns: Asked[] = []
  let held = ''
  for (const [i, step] of steps.entries()) {
    turns.push(await ask(rig, held === '' ? QUESTION : [...QUESTION, SAID(held)]))
    held += `${held === '' ? '' : '\n'}${step}\nObservation: result ${i}`
  }
  turns.push(await ask(rig, [...QUESTION, SAID(held), USER('Thanks')]))
  const next = await nextOf(rig.log)
  assert.deepEqual(
    turns.map(({ turn }) => next.get(turn.turn)),
    [...turns.slice(1).map(({ turn }) => turn.turn), null],
  )
  assert.equal(new Set(turns.map(({ turn }) => turn.session)).size, 1)
})

test('steps that come back merged into one message continue from the last one (LlamaIndex)', async (t) => {
  const rig = await rigOf(t, { script: saying(STEP, 'Thought: I know.\nAnswer: three', 'Bye.') })
  const one = await ask(rig, QUESTION)
  const two = await ask(rig, [...QUESTION, SAID(STEP.replaceAll('"', "'")), USER('Observation: 3')])
  const all = `${STEP.replaceAll('"', "'")}\nObservation: 3\nThought: I know.\nAnswer: three`
  const three = await ask(rig, [...QUESTION, SAID(all), USER('Thanks')])
  const next = await nextOf(rig.log)
  assert.deepEqual(
    [one, two].map(({ turn }) => next.get(turn.turn)),
    [two.turn.turn, three.turn.turn],
  )
})

/** The log as read by a gateway that is stopped while `held` is not null. */
const withReading = (log: EventLog): { log: EventLog; hold: () => () => void } => {
  let held: PromiseWithResolvers<void> | null = null
  const slow = new Proxy(log, {
    get(target, name) {
      if (name === 'subscribe') {
        return (options: Parameters<EventLog['subscribe']>[0]) =>
          target.subscribe({
            ...options,
            handle: async (records) => {
              await held?.promise
              await options.handle(records)
            },
          })
      }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  return {
    log: slow,
    hold() {
      const now = (held = Promise.withResolvers<void>())
      return () => {
        held = null
        now.resolve()
      }
    },
  }
}

test('a gateway that has read only a shorter answer of another conversation does not take the request for its continuation', async (t) => {
  const log = openMemoryLog()
  const reading = withReading(log)
  const first = await rigOf(t, { log, script: saying('Three', 'Three\nObservation: five') })
  const second = await rigOf(t, { log: reading.log, script: saying('A', 'B', 'C'), settings: { tailWaitMs: 100 } })
  const short = await ask(first, QUESTION)
  // Feedback applies to what was read.
  const known = await second.fetch('/v1/feedback', { json: { turn_id: short.turn.turn, value: 1 } })
  assert.equal(known.status, 200)
  const release = reading.hold()
  const long = await ask(first, QUESTION)
  assert.notEqual(short.turn.session, long.turn.session)
  const lost = await ask(second, [...QUESTION, SAID('Three\nObservation: five\nError: none')])
  release()
  assert.notEqual(lost.turn.session, short.turn.session)
  const went = await ask(second, [...QUESTION, SAID('Three\nObservation: five\nObservation: yes')])
  const other = await ask(second, [...QUESTION, SAID('Three\nObservation: yes')])
  assert.deepEqual([went.turn.session, other.turn.session], [long.turn.session, short.turn.session])
})

test('twenty rollouts of one prompt that are alike at first continue each from its own turns', async (t) => {
  const script = (): (() => string) => {
    let i = 0
    return () => `Thought: try ${i++}.\nAction: read`
  }
  const rig = await rigOf(t, { script: script() })
  const begun: Asked[] = []
  for (let i = 0; i < 20; i += 1) begun.push(await ask(rig, QUESTION))
  for (const { turn, content } of begun.toReversed()) {
    const on = await ask(rig, [...QUESTION, SAID(`${content}\nObservation: ${content.length}`)])
    assert.equal(on.turn.session, turn.session)
  }
})

test('among more alike conversations than the comparison limit no continuation is assumed', async (t) => {
  const rig = await rigOf(t, { script: () => STEP })
  const sessions = new Set<string>()
  for (let i = 0; i < 9; i += 1) sessions.add((await ask(rig, QUESTION)).turn.session)
  for (let i = 0; i < 9; i += 1) await ask(rig, [...QUESTION, SAID(`${STEP}\nObservation: ${i}`)])
  const next = await nextOf(rig.log)
  assert.equal([...next.values()].filter((turn) => turn !== null).length, 9)
  const lost = await ask(rig, [...QUESTION, SAID(`${STEP}\nObservation: another`)])
  assert.equal(sessions.has(lost.turn.session), false)
})

test('a named session has its own turns alone', async (t) => {
  const rig = await rigOf(t, { script: saying(STEP, 'Three.') })
  const one = await ask(rig, QUESTION, {}, { 'x-session-id': 'desk' })
  const wrote = `${STEP}\nObservation: 3`
  const two = await ask(rig, [...QUESTION, SAID(wrote), USER('Go on.')], {}, { 'x-session-id': 'sofa' })
  assert.notDeepEqual(two.turn.after, one.turn.answer)
  assert.deepEqual([two.turn.session, two.turn.body.from], ['sofa', null])
})

test('foreign texts are not joined: continued words, another key, another question, an answer in the middle', async (t) => {
  const keys = ['anna', 'bert'].map((id) => ({ id, sha256: sha256(Buffer.from(`sk-${id}`)) }))
  const rig = await rigOf(t, { script: saying('Three', 'x', 'x', 'x', 'x', 'x'), settings: { keys } })
  const [anna, bert] = keys.map(({ id }) => ({ authorization: `Bearer sk-${id}` }))
  const one = await ask(rig, QUESTION, {}, anna)
  for (const [messages] of [
    [[...QUESTION, SAID('Three, or rather four.'), USER('Why?')]],
    [[...QUESTION, SAID('Three.\n\nReason: there are.'), USER('Why?')]],
    [[USER('Something else'), SAID('Three\nObservation: 3')]],
    [[...QUESTION, SAID('I say: Three\nObservation: 3')]],
  ] as const) {
    const other = await ask(rig, messages, {}, anna)
    assert.notEqual(other.turn.session, one.turn.session)
  }
  const foreign = await ask(rig, [...QUESTION, SAID('Three\nObservation: 3')], {}, bert)
  assert.notEqual(foreign.turn.after, one.turn.answer)
  assert.equal((await nextOf(rig.log)).get(one.turn.turn), null)
})

test('ids of the gateway in the text of an answer name its turn (smolagents)', async (t) => {
  const tools = [{ type: 'function', function: { name: 'read', parameters: { type: 'object', properties: {} } } }]
  const rig = await rigOf(t, {
    script: saying('<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>', 'Red.'),
  })
  const one = await ask(rig, QUESTION, { tools })
  const wrote = `Calling tools:\n[{'id': '${one.calls[0]!.id}', 'type': 'function', 'function': {'name': 'read', 'arguments': {'path': 'a.txt'}}}]`
  const two = await ask(rig, [...QUESTION, SAID(wrote), USER('Observation:\nIt is red.')], { tools })
  assert.deepEqual(
    [two.turn.session, two.turn.labelSource, two.turn.after],
    [one.turn.session, 'minted', one.turn.answer],
  )
  assert.equal((await nextOf(rig.log)).get(one.turn.turn), two.turn.turn)
})

test('results of calls are main turns without tools, and so are their continuations; a title request is not (AutoGen)', async (t) => {
  const tools = [{ type: 'function', function: { name: 'read', parameters: { type: 'object', properties: {} } } }]
  const called = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
  const rig = await rigOf(t, { script: saying(called, 'It is red.', 'A title', 'Bye.') })
  const headers = { 'x-session-id': 'desk' }
  const one = await ask(rig, QUESTION, { tools }, headers)
  const reflect = [
    ...QUESTION,
    { ...SAID(''), tool_calls: one.calls },
    { role: 'tool', tool_call_id: one.calls[0]!.id, content: 'red' },
  ]
  const two = await ask(rig, reflect, {}, headers)
  assert.deepEqual([two.turn.kind, two.turn.reason], ['main', null])
  assert.equal((await nextOf(rig.log)).get(one.turn.turn), two.turn.turn)
  const title = await ask(rig, [...reflect, SAID('It is red.'), USER('Name this conversation.')], {}, headers)
  assert.equal(title.turn.kind, 'side')
  const three = await ask(rig, [...reflect, SAID('It is red.'), USER('Thanks')], { tools }, headers)
  assert.equal((await nextOf(rig.log)).get(two.turn.turn), three.turn.turn)
})

test('a result names its call, also with a reasoning item between them (pydantic-ai)', async (t) => {
  const tools = [{ type: 'function', name: 'read', parameters: { type: 'object', properties: {} } }]
  const called =
    '<think>\nLook.\n</think>\n\n<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
  type Item = { type: string; call_id?: string; name?: string; arguments?: string }
  for (const place of ['before', 'after', 'instead'] as const) {
    const rig = await rigOf(t, { script: saying(called, 'It is red.') })
    const respond = async (input: unknown): Promise<{ turn: TurnCaptured | TurnAborted; output: Item[] }> => {
      const response = await rig.fetch('/v1/responses', { json: { model: 'policy', input, tools } })
      const { output } = (await response.json()) as { output: Item[] }
      return { turn: await turnOf(rig.log, response.headers.get('x-instar-turn-id')), output }
    }
    const question = { role: 'user', content: 'What is it?' }
    const one = await respond([question])
    const { call_id, name, arguments: args } = one.output.find(({ type }) => type === 'function_call')!
    const call = { type: 'function_call', call_id, name, arguments: args }
    const thought = { role: 'assistant', content: '<think>\nLook.\n</think>' }
    const items = place === 'before' ? [thought, call] : place === 'after' ? [call, thought] : [thought]
    const two = await respond([question, ...items, { type: 'function_call_output', call_id, output: 'red' }])
    assert.deepEqual(
      [two.turn.session, two.turn.kind, two.turn.labelSource],
      [one.turn.session, 'main', 'minted'],
      place,
    )
    assert.equal((await nextOf(rig.log)).get(one.turn.turn), two.turn.turn, place)
  }
})
