/** OpenCode, `opencode run`, on Chat Completions: it requests a title before the first answer, in the same session. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Place } from '../program.ts'
import { assertAnswered, assertChained, calls, dying, posts, type Say } from '../scene.ts'
import { ANSWERS, begin, PROMPTS, readBig, talkOf, travel } from '../agents/journey.ts'
import { opencode } from '../agents/programs.ts'

test('opencode: three prompts from three processes are one session, and the title request is a side turn', async () => {
  const journey = await begin(opencode(), { tape: 'opencode.journey' })
  try {
    await travel(journey)
    const story = await journey.scene.story()
    assert.deepEqual(story.of('session'), [0, 0, 0, 0, 0, 0])
    assert.equal(story.of('kind').filter((kind) => kind === 'side').length, 1)
    const main = story.turns.flatMap((turn, i) => (turn.kind === 'main' ? [i] : []))
    assertChained(story, main)
    assert.deepEqual(
      main.map((i) => story.turns[i]!.offPrefix),
      main.map(() => false),
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('opencode: a compaction is a side turn, and the session continues after it', async () => {
  const program = opencode({ context: 20_000, output: 1000 })
  const journey = await begin(program, {
    tape: 'opencode.compaction',
    script: (place) => (last, prompt) => {
      if (prompt.startsWith('system\nYou are a title generator')) return 'Big file'
      if (prompt.startsWith('system\nYou are a context summarization agent')) return 'The file was read.'
      if (last.includes('Read the big file') && !last.includes('The file was read.'))
        return calls(program.read(place, 'a3.txt'))
      return 'It is done.'
    },
  })
  try {
    await readBig(journey)
    const story = await journey.scene.story()
    assert.deepEqual(
      story.of('session'),
      story.turns.map(() => 0),
    )
    assert.deepEqual(story.of('kind'), ['side', 'main', 'main', 'side', 'main', 'main'])
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

const titled =
  (place: Place): Say =>
  (last, prompt) =>
    prompt.startsWith('system\nYou are a title generator') ? 'Two files' : talkOf(opencode(), place)(last, prompt)

test('opencode: a 429 is retried, and the conversation is unchanged', async () => {
  const journey = await begin(opencode(), { limited: true, script: titled })
  try {
    journey.scene.exhaust()
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    assert.ok(posts(journey.scene.wire).some(({ status }) => status === 429))
    const story = await journey.scene.story()
    // The title is requested concurrently with the first answer: either may get the 429 and then come second.
    const [kinds, next] = [story.of('kind'), story.of('next')]
    const mains = kinds.flatMap((kind, i) => (kind === 'main' ? [i] : []))
    assert.deepEqual(
      [story.of('session'), kinds.toSorted(), story.of('attempt')],
      [
        [0, 0, 0],
        ['main', 'main', 'side'],
        [1, 1, 1],
      ],
    )
    assert.deepEqual([next[mains[0]!], next[mains[1]!], next[kinds.indexOf('side')]], [mains[1], null, null])
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

for (const [what, tape] of [
  ['the model dies in mid-stream', 'opencode.died'],
  ['the connection drops in the first answer', 'opencode.dropped'],
] as const) {
  test(`opencode: ${what}: the request is repeated in the same session and joined`, async () => {
    let lives = tape === 'opencode.died' ? 1 : 0
    const journey = await begin(opencode(), {
      tape,
      script: (place) => (last, prompt) =>
        last.includes('It is red') && lives-- > 0
          ? dying('Half an answer that is cut', 3)
          : titled(place)(last, prompt),
    })
    try {
      if (tape === 'opencode.dropped') journey.scene.wire.dropAt('look')
      const { code, stdout } = await journey.say(PROMPTS[0])
      assert.deepEqual([code, stdout.includes(ANSWERS[0].split('\r')[0]!)], [0, true])
      const story = await journey.scene.story()
      assert.deepEqual(
        [story.of('session'), story.of('kind')],
        [
          [0, 0, 0, 0],
          ['side', 'main', 'main', 'main'],
        ],
      )
      const cut = tape === 'opencode.died' ? 2 : 1
      assert.deepEqual(
        story.of('status'),
        story.turns.map((_, i) => (i === cut ? 'aborted' : 'complete')),
      )
      assert.deepEqual(story.of('next'), cut === 1 ? [null, null, 3, null] : [null, 2, null, null])
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}
