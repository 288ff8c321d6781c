import assert from 'node:assert/strict'
import { test } from 'node:test'
import { beginningsIn, behindAnswer, contentOfAnswer, putBehind, wordsName } from './text-behind.ts'

const ACTION = 'Thought: I look.\nAction: read\nAction Input: {"lines":  2, "path": "a.txt"}'

test('what an agent put behind an answer is told, whatever it closed the answer with or wrote anew', () => {
  assert.equal(behindAnswer(`${ACTION}\nObservation: It is red.`, '', ACTION), 'Observation: It is red.')
  assert.equal(
    behindAnswer(
      "Thought: I look.\nAction: read\nAction Input: {'lines': 2, 'path': 'a.txt'}\nObservation: red",
      '',
      ACTION,
    ),
    'Observation: red',
  )
  assert.equal(
    behindAnswer('<code>\nread("a")\n</code>\nCalling tools:\n[1]', '', '<code>\nread("a")\n'),
    'Calling tools:\n[1]',
  )
  assert.equal(behindAnswer('<think>\nHm.\n</think>\n\nParis.\nObservation: yes', '', 'Paris.'), 'Observation: yes')
  assert.equal(behindAnswer('```\nf()\n```\n</code>', '', '```\nf()\n'), '')
})

test('steps of several answers in one message: behind the last is what the message did not hold before', () => {
  const held = `${ACTION}\nObservation: It is red.`
  assert.equal(behindAnswer(`${held}\nThought: Red.\nObservation: more`, held, 'Thought: Red.'), 'Observation: more')
  assert.equal(behindAnswer(held, held, 'It is red.'), null)
})

test('a text that goes on from ours in words of its own is not ours', () => {
  assert.equal(behindAnswer('Yes, because it is.', '', 'Yes'), null)
  assert.equal(behindAnswer('Yes.\n\nBecause it is.', '', 'Yes.'), null)
  assert.equal(behindAnswer('Yes.\n\nReason: it is.', '', 'Yes.'), null)
  assert.equal(behindAnswer('Yes\n- Observation: it is.', '', 'Yes'), null)
  assert.equal(behindAnswer('42 items', '', '4'), null)
  assert.equal(behindAnswer('Yes it says Observation: no', '', 'Yes'), null)
  assert.equal(behindAnswer('…', '', '…'), null)
  assert.equal(putBehind(' Observation: x'), null)
})

test('of several beginnings the longest comes first, and a text of 200 KB with 256 of them is read once', () => {
  const text = 'word and word. '.repeat(14_000)
  const names = Array.from({ length: 256 }, (_, i) => wordsName('word and word. '.repeat((i + 1) * 54))!)
  const begin = performance.now()
  const found = beginningsIn(text, new Set([...names, wordsName('word and other')!]))
  assert.deepEqual(
    found.map(({ name }) => name),
    names.toReversed(),
  )
  assert.ok(performance.now() - begin < 500)
  assert.deepEqual(
    beginningsIn('Paris is nice', new Set([wordsName('paris')!, wordsName('Paris, is')!])).map(({ behind }) => behind),
    [' nice', ' is nice'],
  )
})

test('of a raw answer thoughts and calls are no content', () => {
  assert.equal(contentOfAnswer('<think>\na\n</think>\n\nHi <tool_call>\n{}\n</tool_call>').trim(), 'Hi')
  assert.equal(contentOfAnswer('a thought that the prompt began</think>Hi'), 'Hi')
})

test('the name of a text is of its words, each in lower case by itself, and a beginning has the same one', () => {
  assert.equal(wordsName('A b, C!'), '3:ba7816bf8f01cfea414140de5dae2223')
  assert.equal(wordsName(' -\n'), null)
  // A capital sigma is another letter at the end of a word.
  const name = wordsName('ΟΔΟΣ ΣΟΦΙΑΣ')!
  assert.deepEqual(beginningsIn('οδος σοφιας, Athens', new Set([name, wordsName('οδος')!])), [
    { name, behind: ', Athens' },
    { name: wordsName('οδος')!, behind: ' σοφιας, Athens' },
  ])
})
