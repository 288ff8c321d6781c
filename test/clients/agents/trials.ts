/** Tests that every agent must pass; tests of one agent are in its own file. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LabelSource } from '@instar/events'
import { assertAnswered, assertOneThread, dying, posts } from '../scene.ts'
import { ANSWERS, begin, PROMPTS, talkOf, travel, TURNS } from './journey.ts'
import type { Program } from './programs.ts'

/**
 * `sources`: how the session of each turn of the scenario is found. `shown`: the answer in the agent's output.
 * `rewords`: after a cut it may change the user message.
 */
export const trials = (
  program: Program,
  {
    sources,
    shown,
    rewords = false,
  }: { sources: readonly LabelSource[]; shown: (stdout: string) => string; rewords?: boolean },
): void => {
  const tape = program.name.replaceAll(' ', '-')
  test(`${program.name}: three prompts from three processes, with parallel calls and a written file, are one session`, async () => {
    const journey = await begin(program, { tape: `${tape}.journey` })
    try {
      const ran = await travel(journey)
      assert.deepEqual(
        ran.map(({ stdout }) => shown(stdout).trim()),
        ANSWERS,
      )
      const story = await journey.scene.story()
      assertOneThread(story, TURNS)
      assertAnswered(journey.scene, story)
      assert.deepEqual(
        story.turns.map(({ event }) => event.labelSource),
        sources,
      )
      assert.equal(posts(journey.scene.wire).length, TURNS)
    } finally {
      await journey.end()
    }
  })

  test(`${program.name}: a 429 is retried, and the conversation is unchanged`, async () => {
    const journey = await begin(program, { limited: true })
    try {
      journey.scene.exhaust()
      const { code, stdout } = await journey.say(PROMPTS[0])
      assert.deepEqual([code, shown(stdout).trim()], [0, ANSWERS[0]])
      assert.ok(posts(journey.scene.wire).some(({ status }) => status === 429))
      const story = await journey.scene.story()
      assertOneThread(story, 2)
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })

  test(`${program.name}: after a failure of the model inside a stream the request is repeated in the same session and joined`, async () => {
    let lives = 1
    const journey = await begin(program, {
      tape: `${tape}.died`,
      script: (place) => (last, prompt) =>
        last.includes('It is red') && lives-- > 0
          ? dying('Half an answer that is cut', 3)
          : talkOf(program, place)(last, prompt),
    })
    try {
      const ran = [await journey.say(PROMPTS[0]), await journey.say(PROMPTS[1], true)]
      assert.deepEqual(
        ran.map(({ code, stdout }) => [code, shown(stdout).trim()]),
        [
          [0, ANSWERS[0]],
          [0, ANSWERS[1]],
        ],
      )
      const story = await journey.scene.story()
      assert.deepEqual(story.of('session'), [0, 0, 0, 0, 0])
      assert.deepEqual(story.of('status'), ['complete', 'aborted', 'complete', 'complete', 'complete'])
      assert.deepEqual(story.of('attempt'), [1, 1, 2, 1, 1])
      assert.deepEqual(story.of('next'), [1, null, 3, 4, null])
      assert.deepEqual(story.of('offPrefix'), [false, false, false, false, false])
      assert.deepEqual(story.of('reason'), [null, 'aborted', null, null, null])
      assert.equal(story.turns[1]!.text, 'Half')
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })

  test(`${program.name}: after a dropped connection in the first answer the request is repeated in the same session`, async () => {
    const journey = await begin(program, { tape: `${tape}.dropped` })
    try {
      journey.scene.wire.dropAt('look')
      const { code, stdout } = await journey.say(PROMPTS[0])
      assert.deepEqual([code, shown(stdout).trim()], [0, ANSWERS[0]])
      const story = await journey.scene.story()
      assert.deepEqual(
        [story.of('session'), story.of('status'), story.of('next')],
        [
          [0, 0, 0],
          ['aborted', 'complete', 'complete'],
          [null, 2, null],
        ],
      )
      assert.ok([2, ...(rewords ? [1] : [])].includes(story.turns[1]!.attempt))
      assert.deepEqual(story.of('offPrefix'), [false, false, false])
      assert.ok(story.turns[1]!.text.startsWith(story.turns[0]!.text))
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}
