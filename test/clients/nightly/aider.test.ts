/**
 * aider, `aider --message`, on Chat Completions: no tools, an example conversation before the first user message, and
 * messages of its own between an answer and the next user message. The next process reads the history from a Markdown
 * file.
 */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { assertAnswered, dying, posts, type Say } from '../scene.ts'
import { begin, PROMPTS } from '../agents/journey.ts'
import { aider } from '../agents/programs.ts'

const edit = (file: string, from: string, to: string): string =>
  `${file}\n\`\`\`\n<<<<<<< SEARCH\n${from}\n=======\n${to}\n>>>>>>> REPLACE\n\`\`\`\n`

const WORDS = 'One is red, the other is blue.'
/** A failed edit is reported to the model in the same process. */
const talk: Say = (last) => {
  if (last.includes('failed to match')) return `Once more:\n\n${edit('a1.txt', 'It is red.', 'It is purple.')}`
  if (last.includes(PROMPTS[0])) return WORDS
  if (last.includes(PROMPTS[1])) return `I will change it.\n\n${edit('a1.txt', 'It is green.', 'It is purple.')}`
  return 'Bye.'
}

for (const [name, base, labelled] of [
  ['aider', '/v1', false],
  ['aider-with-session', '/s/kitchen/v1', true],
] as const) {
  test(`${name}: three prompts from three processes, with a failed edit that is repeated, are one session`, async () => {
    const journey = await begin(aider(base), { tape: `${name}.journey`, script: () => talk })
    try {
      const ran = []
      for (const [i, prompt] of PROMPTS.entries()) ran.push(await journey.say(prompt, i > 0))
      assert.deepEqual(
        ran.map(({ code }) => code),
        [0, 0, 0],
        ran.map(({ stderr }) => stderr).join('\n'),
      )
      assert.equal(await readFile(path.join(journey.place.work, 'a1.txt'), 'utf8'), 'It is purple.\n')
      const story = await journey.scene.story()
      assert.deepEqual(
        story.turns.map(({ event }) => event.labelSource),
        labelled ? ['header', 'header', 'header', 'header'] : ['fingerprint', 'answer', 'answer', 'fingerprint'],
      )
      // The report of a failed edit is appended to the answer before it, so the last prompt follows no answer.
      assert.deepEqual(
        [story.of('session'), story.of('next')],
        [labelled ? [0, 0, 0, 0] : [0, 0, 0, 1], [1, 2, null, null]],
      )
      assert.deepEqual(
        [story.of('kind'), story.of('status'), story.of('reason')],
        [
          ['main', 'main', 'main', 'main'],
          ['complete', 'complete', 'complete', 'complete'],
          [null, null, null, null],
        ],
      )
      const [first, second] = (await journey.scene.became()).map(({ heard }) => heard?.user)
      assert.equal(first, PROMPTS[1])
      assert.match(second!, /^# 1 SEARCH\/REPLACE block failed to match!/)
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}

test('aider: a 429 is retried, and the conversation is unchanged', async () => {
  const journey = await begin(aider(), { limited: true, script: () => talk })
  try {
    journey.scene.exhaust()
    const { code, stdout } = await journey.say(PROMPTS[0])
    assert.deepEqual([code, stdout.includes(WORDS)], [0, true])
    assert.ok(posts(journey.scene.wire).some(({ status }) => status === 429))
    const story = await journey.scene.story()
    assert.deepEqual([story.of('session'), story.of('status')], [[0], ['complete']])
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

for (const [what, tape] of [
  ['the model dies in mid-stream', 'aider.died'],
  ['the connection drops in the first answer', 'aider.dropped'],
] as const) {
  test(`aider: ${what}: the request is repeated in the same session`, async () => {
    let lives = tape === 'aider.died' ? 1 : 0
    const journey = await begin(aider(), {
      tape,
      script: () => (last, prompt) =>
        last.includes(PROMPTS[0]) && lives-- > 0 ? dying('One is not what it seems', 3) : talk(last, prompt),
    })
    try {
      if (tape === 'aider.dropped') journey.scene.wire.dropAt('red')
      const ran = [await journey.say(PROMPTS[0]), await journey.say(PROMPTS[2], true)]
      assert.deepEqual(
        ran.map(({ code }) => code),
        [0, 0],
      )
      const story = await journey.scene.story()
      assert.deepEqual(
        [story.of('status'), story.of('attempt'), story.of('reason')],
        [
          ['aborted', 'complete', 'complete'],
          [1, 2, 1],
          ['aborted', null, null],
        ],
      )
      // Both parts are one answer in the history that is read back.
      assert.deepEqual(
        [story.of('session'), story.of('next')],
        [
          [0, 0, 0],
          [null, 2, null],
        ],
      )
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}
