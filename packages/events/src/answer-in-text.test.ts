import assert from 'node:assert/strict'
import { test } from 'node:test'
import { matchingPrefixes, textAfterAnswer, contentOfAnswer, appendedText, wordsHash } from './answer-in-text.ts'

const ACTION = 'Thought: I look.\nAction: read\nAction Input: {"lines":  2, "path": "a.txt"}'

test('the text that an agent appended is found after closing quotes and tags, and after a reformatted answer', () => {
  assert.equal(textAfterAnswer(`${ACTION}\nObservation: It is red.`, '', ACTION), 'Observation: It is red.')
  assert.equal(
    textAfterAnswer(
      "Thought: I look.\nAction: read\nAction Input: {'lines': 2, 'path': 'a.txt'}\nObservation: red",
      '',
      ACTION,
    ),
    'Observation: red',
  )
  assert.equal(
    textAfterAnswer('<code>\nread("a")\n</code>\nCalling tools:\n[1]', '', '<code>\nread("a")\n'),
    'Calling tools:\n[1]',
  )
  assert.equal(textAfterAnswer('<think>\nHm.\n</think>\n\nParis.\nObservation: yes', '', 'Paris.'), 'Observation: yes')
  assert.equal(textAfterAnswer('```\nf()\n```\n</code>', '', '```\nf()\n'), '')
})

test('in a message with several answers, the text after the last answer is found', () => {
  const before = `${ACTION}\nObservation: It is red.`
  assert.equal(
    textAfterAnswer(`${before}\nThought: Red.\nObservation: more`, before, 'Thought: Red.'),
    'Observation: more',
  )
  assert.equal(textAfterAnswer(before, before, 'It is red.'), null)
})

test('a text that continues with unlabelled words does not match the answer', () => {
  assert.equal(textAfterAnswer('Yes, because it is.', '', 'Yes'), null)
  assert.equal(textAfterAnswer('Yes.\n\nBecause it is.', '', 'Yes.'), null)
  assert.equal(textAfterAnswer('Yes.\n\nReason: it is.', '', 'Yes.'), null)
  assert.equal(textAfterAnswer('Yes\n- Observation: it is.', '', 'Yes'), null)
  assert.equal(textAfterAnswer('42 items', '', '4'), null)
  assert.equal(textAfterAnswer('Yes it says Observation: no', '', 'Yes'), null)
  assert.equal(textAfterAnswer('…', '', '…'), null)
  assert.equal(appendedText(' Observation: x'), null)
})

test('matching prefixes are sorted by length, longest first; a text of 200 KB is read once for 256 prefixes', () => {
  const text = 'word and word. '.repeat(14_000)
  const hashes = Array.from({ length: 256 }, (_, i) => wordsHash('word and word. '.repeat((i + 1) * 54))!)
  const begin = performance.now()
  const matches = matchingPrefixes(text, new Set([...hashes, wordsHash('word and other')!]))
  assert.deepEqual(
    matches.map(({ hash }) => hash),
    hashes.toReversed(),
  )
  assert.ok(performance.now() - begin < 500)
  assert.deepEqual(
    matchingPrefixes('Paris is nice', new Set([wordsHash('paris')!, wordsHash('Paris, is')!])).map(({ rest }) => rest),
    [' nice', ' is nice'],
  )
})

test('thoughts and tool calls are not part of the content of an answer', () => {
  assert.equal(contentOfAnswer('<think>\na\n</think>\n\nHi <tool_call>\n{}\n</tool_call>').trim(), 'Hi')
  assert.equal(contentOfAnswer('a thought that the prompt began</think>Hi'), 'Hi')
})

test('the hash of a text depends on its words in lower case only, and matches a prefix with the same words', () => {
  assert.equal(wordsHash('A b, C!'), '3:ba7816bf8f01cfea414140de5dae2223')
  assert.equal(wordsHash(' -\n'), null)
  // The lower case of a capital sigma differs at the end of a word, so words are converted one by one.
  const hash = wordsHash('ΟΔΟΣ ΣΟΦΙΑΣ')!
  assert.deepEqual(matchingPrefixes('οδος σοφιας, Athens', new Set([hash, wordsHash('οδος')!])), [
    { hash, rest: ', Athens' },
    { hash: wordsHash('οδος')!, rest: ' σοφιας, Athens' },
  ])
})

test('millions of closing signs after an answer are no error', () => {
  for (const signs of ['. ', '</a>'])
    for (const behind of ['', '\nObservation: it is.'])
      assert.doesNotThrow(() => textAfterAnswer(`Yes${signs.repeat(5_000_000)}${behind}`, '', 'Yes'))
  assert.equal(textAfterAnswer(`Yes${'. '.repeat(1000)}\nObservation: it is.`, '', 'Yes'), 'Observation: it is.')
})
