/**
 * Qwen Code, `qwen -p`, on Chat Completions: no session id in requests, dates that are added and removed, memories
 * extracted beside the conversation.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered, assertChained, assertOneThread, dying, posts } from '../scene.ts'
import { begin, PROMPTS, talkOf, travel } from '../agents/journey.ts'
import { qwen } from '../agents/programs.ts'

test('qwen: three prompts from three processes are one session, and its memory requests are side turns', async () => {
  const journey = await begin(qwen(), { tape: 'qwen.journey' })
  try {
    await travel(journey)
    const story = await journey.scene.story()
    const main = story.turns.flatMap((turn, i) => (turn.kind === 'main' ? [i] : []))
    assert.deepEqual(
      main.map((i) => story.turns[i]!.session),
      [0, 0, 0, 0, 0],
    )
    assertChained(story, main)
    // A date is removed from the history with each user message.
    assert.deepEqual(
      main.map((i) => story.turns[i]!.offPrefix),
      [false, false, true, false, true],
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('qwen: an answer that is cut and continued comes back as one; the half is not trained on, and no turn claims the whole', async () => {
  let lives = 1
  const program = qwen()
  const journey = await begin(program, {
    tape: 'qwen.died',
    script: (place) => (last, prompt) =>
      last.includes('It is red') && lives-- > 0
        ? dying('Half an answer that is cut', 3)
        : talkOf(program, place)(last, prompt),
  })
  try {
    for (const [i, prompt] of [PROMPTS[0], PROMPTS[1]].entries())
      assert.equal((await journey.say(prompt, i > 0)).code, 0)
    const { turns } = await journey.scene.story()
    const main = turns.filter(({ kind }) => kind === 'main')
    assert.deepEqual(
      main.map(({ session }) => session),
      [0, 0, 0, 0, 0],
    )
    assert.deepEqual(
      main.map(({ status }) => status),
      ['complete', 'aborted', 'complete', 'complete', 'complete'],
    )
    assert.deepEqual(
      main.map(({ next }) => next),
      [1, 2, null, 4, null],
    )
    assert.deepEqual(
      main.map(({ reason }) => reason),
      [null, 'aborted', null, null, null],
    )
  } finally {
    await journey.end()
  }
})

test('qwen: a 429 is retried, and the conversation is unchanged', async () => {
  const journey = await begin(qwen(), { limited: true })
  try {
    journey.scene.exhaust()
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    assert.ok(posts(journey.scene.wire).some(({ status }) => status === 429))
    const story = await journey.scene.story()
    assertOneThread(story, 2)
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('qwen: after a dropped connection in the first answer it continues in the same session; memory requests are side turns', async () => {
  const journey = await begin(qwen(), { tape: 'qwen.dropped' })
  try {
    journey.scene.wire.dropAt('look')
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    const { turns } = await journey.scene.story()
    const main = turns.filter(({ kind }) => kind === 'main')
    assert.deepEqual(
      main.map(({ session, status, next, reason }) => [session, status, next, reason]),
      [
        [0, 'aborted', 1, 'aborted'],
        [0, 'complete', null, null],
      ],
    )
    assert.ok(main[0]!.text.endsWith('I will look'))
  } finally {
    await journey.end()
  }
})
