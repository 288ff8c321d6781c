import { test } from 'node:test'
import assert from 'node:assert/strict'
import { StopStrings } from './stop.ts'

function run(stops: string[], pieces: string[]): { shown: string[]; stopped: boolean } {
  const filter = new StopStrings(stops)
  const shown: string[] = []
  for (const piece of pieces) {
    const { text, stopped } = filter.push(piece)
    shown.push(text)
    if (stopped) return { shown, stopped }
  }
  shown.push(filter.end())
  return { shown, stopped: false }
}

test('a stop string cut by token borders is never shown in part', () => {
  assert.deepEqual(run(['\nUser:'], ['Hello\n', 'Us', 'er', ': more']), { shown: ['Hello', '', '', ''], stopped: true })
})

test('a beginning that comes to nothing is shown late but whole', () => {
  assert.deepEqual(run(['STOP'], ['a ST', 'O', 'LE']), { shown: ['a ', '', 'STOLE', ''], stopped: false })
  assert.deepEqual(run(['STOP'], ['the end ST']), { shown: ['the end ', 'ST'], stopped: false })
})

test('the stop string that begins first wins; overlapping beginnings are kept', () => {
  assert.deepEqual(run(['c', 'abcd'], ['xab', 'cd']), { shown: ['x', ''], stopped: true })
  assert.deepEqual(run(['aab'], ['aa', 'ab']), { shown: ['', 'a'], stopped: true })
})

test('however the text is cut, what is shown is the text before the first stop string', () => {
  const text = 'one two three\n\nfour <|x|> five'
  for (const stops of [['\n\n'], ['<|x|>', 'four'], ['nothing'], ['o', 'e'], []]) {
    const cut = Math.min(...stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0), text.length)
    for (let size = 1; size < 8; size++) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
        text.slice(i * size, (i + 1) * size),
      )
      assert.equal(run(stops, pieces).shown.join(''), text.slice(0, cut))
    }
  }
})
