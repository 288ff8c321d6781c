/** OpenCode, `opencode run`, on Chat Completions: its title comes before the first answer, in the same session. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered, assertChained, calls } from '../scene.ts'
import { begin, readBig, travel } from '../agents/journey.ts'
import { opencode } from '../agents/programs.ts'

test('opencode: three prompts by three processes: one session, the title a side turn', async () => {
  const journey = await begin(opencode(), { tape: 'opencode.journey' })
  try {
    await travel(journey)
    const story = await journey.scene.story()
    assert.deepEqual(story.of('session'), [0, 0, 0, 0, 0, 0])
    assert.equal(story.of('kind').filter((kind) => kind === 'side').length, 1)
    const main = story.turns.flatMap((turn, i) => (turn.kind === 'main' ? [i] : []))
    assertChained(story, main)
    assert.deepEqual(main.map((i) => story.turns[i]!.offPrefix), main.map(() => false))
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('opencode: a compaction is a side turn, what comes after it the same session', async () => {
  const program = opencode({ context: 20_000, output: 1000 })
  const journey = await begin(program, {
    tape: 'opencode.compaction',
    script: (place) => (last, prompt) => {
      if (prompt.startsWith('system\nYou are a title generator')) return 'Big file'
      if (prompt.startsWith('system\nYou are a context summarization agent')) return 'The file was read.'
      if (last.includes('Read the big file') && !last.includes('The file was read.')) return calls(program.read(place, 'a3.txt'))
      return 'It is done.'
    },
  })
  try {
    await readBig(journey)
    const story = await journey.scene.story()
    assert.deepEqual(story.of('session'), story.turns.map(() => 0))
    assert.deepEqual(story.of('kind'), ['side', 'main', 'main', 'side', 'main', 'main'])
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})
