/**
 * OpenClaw, `openclaw agent --local`, on Chat Completions: it appends a message of its own, and ids come back without
 * some characters.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered, dying, posts } from '../scene.ts'
import { begin, PROMPTS, talkOf, travel } from '../agents/journey.ts'
import { openclaw } from '../agents/programs.ts'

for (const [name, model] of [
  ['openclaw', {}],
  ['openclaw-with-session-headers', { compat: { sendSessionAffinityHeaders: true } }],
] as const) {
  test(`${name}: three prompts from three processes are one session`, async () => {
    const journey = await begin(openclaw(model), { tape: `${name}.journey` })
    try {
      await travel(journey)
      const story = await journey.scene.story()
      assert.deepEqual(story.of('session'), [0, 0, 0, 0, 0])
      assert.deepEqual(story.of('kind'), ['main', 'main', 'main', 'main', 'main'])
      assert.deepEqual(story.of('next'), [1, 2, 3, 4, null])
      assert.deepEqual(
        story.turns.map(({ event }) => event.labelSource),
        name === 'openclaw' ? ['prompt', 'minted', 'minted', 'minted', 'minted'] : story.turns.map(() => 'agent'),
      )
      const [first, second, third] = [...new Set(story.turns.map(({ event }) => event.userTurn))]
      assert.deepEqual(
        story.turns.map(({ event }) => event.userTurn),
        [first, first, second, second, third],
      )
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}

const NAMED = { compat: { sendSessionAffinityHeaders: true } }

test('openclaw: a 429 is retried in the same session with another prompt', async () => {
  const journey = await begin(openclaw(NAMED), { limited: true })
  try {
    journey.scene.exhaust()
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    const [refused, again] = posts(journey.scene.wire)
    assert.deepEqual([refused?.status, again?.status], [429, 200])
    assert.notEqual(again!.body, refused!.body)
    const story = await journey.scene.story()
    assert.deepEqual(
      [story.of('session'), story.of('kind'), story.of('status'), story.of('next')],
      [
        [0, 0],
        ['main', 'main'],
        ['complete', 'complete'],
        [1, null],
      ],
    )
    assert.deepEqual(story.of('reason'), ['contaminated', 'contaminated'])
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

for (const [what, tape] of [
  ['the model dies in mid-stream', 'openclaw.died'],
  ['the connection drops in the first answer', 'openclaw.dropped'],
] as const) {
  test(`openclaw: ${what}: the request is repeated with other words in the same session and joined`, async () => {
    const program = openclaw(NAMED)
    let lives = tape === 'openclaw.died' ? 1 : 0
    const journey = await begin(program, {
      tape,
      script: (place) => (last, prompt) =>
        last.includes('It is red') && lives-- > 0
          ? dying('Half an answer that is cut', 3)
          : talkOf(program, place)(last, prompt),
    })
    try {
      if (tape === 'openclaw.dropped') journey.scene.wire.dropAt('look')
      assert.equal((await journey.say(PROMPTS[0])).code, 0)
      const story = await journey.scene.story()
      assert.deepEqual(
        story.of('session'),
        story.turns.map(() => 0),
      )
      const cut = tape === 'openclaw.died' ? 1 : 0
      assert.deepEqual(
        story.of('status'),
        story.turns.map((_, i) => (i === cut ? 'aborted' : 'complete')),
      )
      assert.deepEqual(story.of('next'), cut === 0 ? [null, 2, null] : [1, null, null])
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}
