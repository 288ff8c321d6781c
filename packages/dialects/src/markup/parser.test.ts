import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import type { Call, Piece } from '../answer.ts'
import { AnswerParser } from './parser.ts'
import { parseAnswer } from './whole.ts'

const options = { tools: true, reasoning: false }

type Parsed = { content: string; reasoning: string; calls: Call[] }

/** All pieces of a text that is pushed in parts of `size` characters. */
const parse = (
  text: string,
  size: number,
  overrides: Partial<typeof options> = {},
): { pieces: Piece[]; shown: Parsed } => {
  const parser = new AnswerParser({ ...options, ...overrides })
  const pieces: Piece[] = []
  for (let at = 0; at < text.length; at += size) pieces.push(...parser.push(text.slice(at, at + size)))
  pieces.push(...parser.end())
  const shown: Parsed = { content: '', reasoning: '', calls: [] }
  for (const piece of pieces) {
    if (piece.type === 'calls') shown.calls.push(...piece.calls)
    else shown[piece.type] += piece.text
  }
  return { pieces, shown }
}

const CALL = '<tool_call>\n{"name": "read", "arguments": {"path":  "a.txt"}}\n</tool_call>'
const TEXTS = [
  '',
  'Hello.',
  '  Hello. \n',
  'a < b and <tool',
  'a <b>bold</b> <tool_calls>',
  CALL,
  `Let me look.\n\n${CALL}`,
  `${CALL}\n${CALL}\n`,
  `${CALL}\nDone.`,
  '<think>\nhm\n</think>\n\nHello.',
  `<think>hm</think>${CALL}`,
  '<think>never ends',
  '<thin',
  '<thinking>no</thinking>',
  '<tool_call>not json</tool_call> after',
  `<tool_call>[{"name":"a","arguments":{}},{"name":"b","arguments":{"x":[1,2]}}]</tool_call>`,
  '<tool_call>{"name": "read", "arguments": {}}',
  '<tool_call>{"name": "read", "argum',
  `x ${CALL} y ${CALL} z`,
]

for (const size of [1, 2, 3, 7, 1000]) {
  test(`a text in parts of ${size} characters parses as the whole text does`, () => {
    for (const text of TEXTS) {
      const whole = parseAnswer(text)
      const { shown } = parse(text, size)
      assert.deepEqual(
        { ...shown, reasoning: shown.reasoning.trim() },
        { content: whole.content, reasoning: whole.reasoning, calls: whole.toolCalls },
        JSON.stringify(text),
      )
    }
  })
}

test("the pieces' offsets increase and stay within the text", () => {
  for (const text of TEXTS) {
    let before = 0
    for (const { upTo } of parse(text, 1).pieces) {
      assert.ok(upTo > before && upTo <= text.length, JSON.stringify(text))
      before = upTo
    }
  }
})

test('plain text is emitted at once; the start of a possible tag is buffered', () => {
  const parser = new AnswerParser(options)
  assert.deepEqual(parser.push('Hello'), [{ type: 'content', text: 'Hello', upTo: 5 }])
  assert.deepEqual(parser.push(' <tool'), [])
  assert.deepEqual(parser.push('box>'), [{ type: 'content', text: ' <toolbox>', upTo: 15 }])
})

test('without tools the markup of a call is content', () => {
  assert.equal(parse(CALL, 3, { tools: false }).shown.content, CALL)
})

test('with `reasoning` the text before </think> is reasoning', () => {
  assert.deepEqual(parse('so 2+2\n</think>\n\n4', 2, { reasoning: true }).shown, {
    content: '4',
    reasoning: 'so 2+2\n',
    calls: [],
  })
})

test('arguments keep their bytes', () => {
  assert.deepEqual(parse(CALL, 5).shown.calls, [{ name: 'read', arguments: '{"path":  "a.txt"}' }])
})

/** Characters of the strings on which the functions that search or trim are called while `text` is parsed in parts. */
const charactersRead = (t: TestContext, text: string): number => {
  let read = 0
  const counted = ['indexOf', 'includes', 'trim', 'trimStart', 'trimEnd'] as const
  const mocks = counted.map((name) => {
    const original = String.prototype[name] as (this: string, ...args: unknown[]) => unknown
    return t.mock.method(String.prototype, name, function (this: string, ...args: unknown[]) {
      read += this.length
      return original.apply(this, args)
    } as never)
  })
  const parser = new AnswerParser(options)
  for (let at = 0; at < text.length; at += 4) parser.push(text.slice(at, at + 4))
  parser.end()
  for (const { mock } of mocks) mock.restore()
  return read
}

for (const [name, text] of [
  ['a call without its closing tag', '<tool_call>'.padEnd(40_000, 'ab {"<')],
  ['an answer that begins with white space', ' '.repeat(40_000)],
  ['white space behind content', 'a'.padEnd(40_000, '\n ')],
] as const)
  test(`${name} is read in time linear in its length`, (t) => {
    const read = charactersRead(t, text)
    assert.ok(read < 12 * text.length, `${read} characters read of ${text.length}`)
  })
