/**
 * mini-swe-agent, `mini --task`, on Chat Completions without streams: one task per process, one tool. An answer without
 * a call is omitted from the history and requested again.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { assertAnswered, assertOneThread, calls, dying, posts, type Say } from '../scene.ts'
import { ANSWERS, begin, PROMPTS } from '../agents/journey.ts'
import { mini, type Call } from '../agents/programs.ts'
import type { Place } from '../program.ts'

const program = mini()
const SUBMIT: Call = ['bash', '{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}']

/** `astray`: one answer has text in place of a call. */
const talkOf =
  (place: Place, astray: boolean): Say =>
  (last) => {
    if (last.includes('Tool call error')) return calls(program.write(place, 'note.txt', 'purple'))
    if (last.includes(PROMPTS[0]))
      return `<think>\nTwo files.\n</think>\n\nI will look.\n${calls(program.read(place, 'a1.txt'), program.read(place, 'a2.txt'))}`
    if (last.includes('It is red') && last.includes('It is blue'))
      return astray ? `${ANSWERS[0]}  ` : `I write it down.\n${calls(program.write(place, 'note.txt', 'purple'))}`
    return calls(SUBMIT)
  }

test('mini: a task with parallel calls and a written file is one session, and each result is the next state of its call', async () => {
  const journey = await begin(program, { tape: 'mini.journey', script: (place) => talkOf(place, false) })
  try {
    const { code, stderr } = await journey.say(PROMPTS[0])
    assert.equal(code, 0, stderr)
    assert.equal(await readFile(path.join(journey.place.work, 'note.txt'), 'utf8'), 'purple')
    const story = await journey.scene.story()
    assertOneThread(story, 3)
    assert.deepEqual(
      story.turns.map(({ event }) => event.labelSource),
      ['fingerprint', 'minted', 'minted'],
    )
    const [first] = (await journey.scene.became()).map(({ heard }) => heard)
    assert.ok(first!.tools.includes('It is red') && first!.tools.includes('It is blue'))
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('mini: an answer without a call, which the agent requests again, has no next state, and all other turns are joined', async () => {
  const journey = await begin(program, { tape: 'mini.astray', script: (place) => talkOf(place, true) })
  try {
    const { code, stderr } = await journey.say(PROMPTS[0])
    assert.equal(code, 0, stderr)
    const story = await journey.scene.story()
    assert.deepEqual(
      [story.of('session'), story.of('next'), story.of('status')],
      [
        [0, 0, 0, 0],
        [1, null, 3, null],
        ['complete', 'complete', 'complete', 'complete'],
      ],
    )
    assert.deepEqual(story.of('offPrefix'), [false, false, false, false])
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('mini: a 429 is retried, and the conversation is unchanged', async () => {
  const journey = await begin(program, { limited: true, script: (place) => talkOf(place, false) })
  try {
    journey.scene.exhaust()
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    assert.ok(posts(journey.scene.wire).some(({ status }) => status === 429))
    const story = await journey.scene.story()
    assertOneThread(story, 3)
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('mini: after a failure of the model inside an answer the request is repeated in the same session and joined', async () => {
  let lives = 1
  const journey = await begin(program, {
    script: (place) => (last, prompt) =>
      last.includes('It is red') && lives-- > 0
        ? dying('Half an answer that is cut', 3)
        : talkOf(place, false)(last, prompt),
  })
  try {
    const { code, stderr } = await journey.say(PROMPTS[0])
    assert.equal(code, 0, stderr)
    const story = await journey.scene.story()
    assert.deepEqual(
      [story.of('session'), story.of('status'), story.of('attempt'), story.of('next')],
      [
        [0, 0, 0, 0],
        ['complete', 'aborted', 'complete', 'complete'],
        [1, 1, 2, 1],
        [1, null, 3, null],
      ],
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})
