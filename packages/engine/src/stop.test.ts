import { test } from 'node:test'
import assert from 'node:assert/strict'
import { StopStrings } from './stop.ts'

function run(stops: string[], pieces: string[]): { sent: string[]; stopped: boolean } {
  const filter = new StopStrings(stops)
  const sent: string[] = []
  for (const piece of pieces) {
    const { text, stopped } = filter.push(piece)
    sent.push(text)
    if (stopped) return { sent, stopped }
  }
  sent.push(filter.end())
  return { sent, stopped: false }
}

test('no part of a stop string that is split over tokens is sent', () => {
  assert.deepEqual(run(['\nUser:'], ['Hello\n', 'Us', 'er', ': more']), { sent: ['Hello', '', '', ''], stopped: true })
})

test('an incomplete stop string is sent as soon as it cannot be completed', () => {
  assert.deepEqual(run(['STOP'], ['a ST', 'O', 'LE']), { sent: ['a ', '', 'STOLE', ''], stopped: false })
  assert.deepEqual(run(['STOP'], ['the end ST']), { sent: ['the end ', 'ST'], stopped: false })
})

test('of several stop strings the one that begins first ends the answer; prefixes may overlap', () => {
  assert.deepEqual(run(['c', 'abcd'], ['xab', 'cd']), { sent: ['x', ''], stopped: true })
  assert.deepEqual(run(['aab'], ['aa', 'ab']), { sent: ['', 'a'], stopped: true })
})

test('for every split of the text, the sent text is the text before the first stop string', () => {
  const text = 'one two three\n\nfour <|x|> five'
  for (const stops of [['\n\n'], ['<|x|>', 'four'], ['nothing'], ['o', 'e'], []]) {
    const cut = Math.min(...stops.map((stop) => text.indexOf(stop)).filter((at) => at >= 0), text.length)
    for (let size = 1; size < 8; size++) {
      const pieces = Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
        text.slice(i * size, (i + 1) * size),
      )
      assert.equal(run(stops, pieces).sent.join(''), text.slice(0, cut))
    }
  }
})
