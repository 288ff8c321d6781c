/**
 * One conversation for every library: two parallel calls, an answer, a complaint, another call, an answer, a farewell.
 * Arguments have unusual spacing and order, and texts contain what clients tend to normalise. And the faults that are
 * injected.
 */
import assert from 'node:assert/strict'
import { assertOneThread, calls, dying, posts, startScene, type Say, type Scene } from './scene.ts'

export const USERS = ['Read both files.', 'That was wrong.', 'Good bye.'] as const
const FILES: Readonly<Record<string, string>> = {
  'a.txt': 'It is red.',
  'b.txt': 'It is blue.',
  'c.txt': 'It is green.',
}
export const CALLED = [
  { path: 'a.txt', lines: 2 },
  { path: 'b.txt', lines: 3 },
  { path: 'c.txt', lines: 1 },
] as const
export const SAID = ['Cafe\u0301 and caf\u00e9:\r\n\tred &amp; blue.  ', 'Green it is.', 'Bye.'] as const
export const THOUGHT = 'They want two files.'

/** The number of requests of the conversation. */
export const TURNS = 5

export const talk: Say = (last) => {
  if (last.includes('Read both'))
    return `<think>\n${THOUGHT}\n</think>\n\nI will look.\n${calls(['read', '{"lines":  2, "path": "\\u0061.txt"}'], ['read', '{"lines": 3,"path": "b.txt"}'])}`
  if (last.includes('wrong')) return calls(['read', '{"lines": 1, "path": "c.txt" }'])
  if (last.includes('red') && last.includes('blue')) return SAID[0]
  if (last.includes('green')) return SAID[1]
  return SAID[2]
}

/** A model that fails at the first attempt after a few words and answers at the second. */
export const mortal = (): Say => {
  let lives = 1
  return (last, prompt) =>
    last.includes('Tell me') && lives-- > 0
      ? dying('Once upon a time there was', 4)
      : last.includes('Tell me')
        ? 'The end.'
        : talk(last, prompt)
}

export const PARAMETERS = {
  type: 'object',
  properties: { path: { type: 'string' }, lines: { type: 'number' } },
  required: ['path', 'lines'],
  additionalProperties: false,
} as const

export const readFile = ({ path }: { path: string }): string => FILES[path] ?? 'no such file'

/** Longer than a context of 2048 tokens. */
export const LONG = 'A word and another one. '.repeat(1200)
export const SMALL_CONTEXT = 2048

/** Both wordings by which clients recognise a context overflow. */
export const OVERFLOW = /maximum context length is 2048 tokens[^]*prompt is too long: \d+ tokens > 2047 maximum/

/** Timers and Date.now() differ by this. */
const CLOCKS_MS = 10

export type Usage = { input: number; output: number }

/** The rate limit is reached: the client retries after the 429, and the user gets the last answer of `talk`. */
export const assertWaitsOut = async (say: (scene: Scene) => Promise<string>): Promise<void> => {
  const scene = await startScene(talk, { limited: true })
  try {
    scene.exhaust()
    assert.equal(await say(scene), SAID[2])
    const exchanges = posts(scene.wire)
    const [refused, again] = exchanges
    assert.deepEqual(
      exchanges.map(({ status }) => status),
      [429, 200],
    )
    assert.ok(
      refused!.retryAfterMs > 1000 && again!.at - refused!.endedAt >= refused!.retryAfterMs - CLOCKS_MS,
      `came again after ${again!.at - refused!.endedAt} ms, asked to wait ${refused!.retryAfterMs}`,
    )
    assertOneThread(await scene.story(), 1)
  } finally {
    await scene.stop()
  }
}
