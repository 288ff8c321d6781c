import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { splitLines } from './lines.ts'

const linesOf = async (chunks: readonly string[], maxBytes: number) => {
  const lines = splitLines(
    (async function* () {
      // One buffer for all chunks, as a reader of files has it.
      const buffer = Buffer.alloc(64)
      for (const chunk of chunks) yield buffer.subarray(0, buffer.write(chunk))
    })(),
    maxBytes,
  )
  const found = []
  for await (const { number, from, length, bytes, tooLong } of lines)
    found.push([number, from, length, bytes.toString(), tooLong])
  return found
}

test('lines keep number and position wherever their bytes are divided into chunks; blank ones are left out', async () => {
  const text = 'ab\n\n \r\ncde\nf'
  for (let cut = 0; cut <= text.length; cut += 1)
    deepEqual(await linesOf([text.slice(0, cut), text.slice(cut)], 9), [
      [1, 0, 2, 'ab', false],
      [4, 7, 3, 'cde', false],
      [5, 11, 1, 'f', false],
    ])
})

test('a line above the maximum is yielded once, before its end, and the next one is read', async () => {
  deepEqual(await linesOf(['abcd', 'e', 'fghijk', 'l\nnext\n', ''], 4), [
    [1, 0, 5, 'abcde', true],
    [2, 13, 4, 'next', false],
  ])
  deepEqual(await linesOf(['abcd', '\n'], 4), [[1, 0, 4, 'abcd', false]])
  deepEqual(await linesOf(['abc', 'de\n'], 4), [[1, 0, 5, 'abcde', true]])
})
