/** Codex CLI, `codex exec`, on Responses. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered, assertChained, calls } from '../scene.ts'
import { begin, PROMPTS, readBig } from './journey.ts'
import { codex } from './programs.ts'
import { trials } from './trials.ts'

trials(codex(), { sources: ['agent', 'agent', 'agent', 'agent', 'agent'], shown: (stdout) => stdout })

test('codex: a compaction is a side turn, and the session continues after it', async () => {
  const program = codex('model_context_window = 28000\nmodel_auto_compact_token_limit = 16500')
  const journey = await begin(program, {
    tape: 'codex.compaction',
    script: (place) => (last) => {
      if (last.includes('CONTEXT CHECKPOINT COMPACTION')) return 'The file was read.'
      if (last.includes('Read the big file') && !last.includes('The file was read.'))
        return calls(program.read(place, 'a3.txt'))
      return 'It is done.'
    },
  })
  try {
    await readBig(journey)
    const story = await journey.scene.story()
    assert.deepEqual(story.of('kind'), ['main', 'side', 'main', 'main'])
    assert.deepEqual(story.of('session'), [0, 0, 0, 0])
    assert.deepEqual(story.of('reason'), [null, 'side', null, null])
    // The tool result is only in the request for the summary.
    assert.deepEqual(story.of('next'), [null, null, 3, null])
    assert.deepEqual(
      story.turns.filter(({ kind }) => kind === 'main').map(({ offPrefix }) => offPrefix),
      [false, false, false],
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('codex: a subagent has a session of its own, and its tools have a namespace', async () => {
  const program = codex()
  const journey = await begin(program, {
    tape: 'codex.subagent',
    script: (place) => (last) => {
      if (last.includes('Delegate it.'))
        return calls(['multi_agent_v1__spawn_agent', '{"message": "Inspect a1.txt please"}'])
      const agent = /"agent_id":\s*"([^"]+)"/.exec(last)?.[1]
      if (agent !== undefined) return calls(['multi_agent_v1__wait_agent', JSON.stringify({ targets: [agent] })])
      if (last.includes('Inspect a1.txt')) return calls(program.read(place, 'a1.txt'))
      return last.includes('The child says red') ? 'The child is right.' : 'The child says red.'
    },
  })
  try {
    const { code, stdout } = await journey.say('Delegate it.')
    assert.deepEqual([code, stdout.trim()], [0, 'The child is right.'])
    const story = await journey.scene.story()
    const of = (session: number): number[] => story.turns.flatMap((turn, i) => (turn.session === session ? [i] : []))
    assert.deepEqual([of(0).length, of(1).length], [3, 2])
    for (const session of [0, 1]) assertChained(story, of(session))
    assert.deepEqual(
      story.of('kind'),
      story.turns.map(() => 'main'),
    )
    assert.deepEqual(
      story.of('offPrefix'),
      story.turns.map(() => false),
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('codex: a context overflow ends the run and leaves nothing on the log', async () => {
  const journey = await begin(codex(), { contextLength: 4096 })
  try {
    const { code, stderr } = await journey.say(PROMPTS[0])
    assert.equal(code, 1)
    assert.match(stderr, /ran out of room/)
    assert.equal(journey.scene.wire.exchanges.length, 1)
    assert.deepEqual((await journey.scene.story()).turns, [])
  } finally {
    await journey.end()
  }
})
