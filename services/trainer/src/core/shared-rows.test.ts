/** Which answers share a row, and what that saves. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { answersIn, rowTokens, sharedRows, type Sequence } from './shared-rows.ts'

const ids = (from: number, count: number): number[] => Array.from({ length: count }, (_, at) => from + at)

test('a sequence is in the row of the longest one that begins with its prompt and its whole answer', () => {
  const sequences: Sequence[] = [
    { prompt: [1, 2], completion: [3] },
    { prompt: [9], completion: [8] },
    { prompt: [1, 2, 3, 4], completion: [5, 6] },
    // Its last token is not that of the row: it would need another target there.
    { prompt: [1, 2], completion: [3, 7] },
    { prompt: [1, 2, 3, 4], completion: [5, 6] },
  ]
  const rows = sharedRows(sequences, true)
  assert.deepEqual(rows, [
    { ids: [1, 2, 3, 4, 5, 6], members: [0, 2, 4] },
    { ids: [9, 8], members: [1] },
    { ids: [1, 2, 3, 7], members: [3] },
  ])
  // A target's value is its own id here: each answer finds its tokens again.
  const values = rows.map((row) => Float32Array.from(row.ids.slice(1)))
  assert.deepEqual(
    answersIn(rows, sequences, values).map((own) => [...own]),
    sequences.map(({ completion }) => [...completion]),
  )
  assert.deepEqual(
    sharedRows(sequences, false).map(({ members }) => members),
    [[0], [1], [2], [3], [4]],
  )
})

test('four turns of a session with prompts that grow by 2,000 tokens of tool results cost the longest row', () => {
  const sequences: Sequence[] = []
  let before: number[] = []
  for (let turn = 0; turn < 4; turn += 1) {
    const prompt = [...before, ...ids(10_000 * turn, 2000)]
    const completion = ids(100_000 + 100 * turn, 50)
    sequences.push({ prompt, completion })
    before = [...prompt, ...completion]
  }
  const total = (shared: boolean) =>
    rowTokens(sharedRows(sequences, shared), sequences).reduce(
      (sum, { prompt, completion }) => [sum[0]! + prompt.length, sum[1]! + completion.length],
      [0, 0],
    )
  assert.deepEqual(total(false), [20_300, 200])
  assert.deepEqual(total(true), [8000, 200])
})
