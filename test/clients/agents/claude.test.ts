/** Claude Code, `claude -p`, on Messages. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered, assertChained, calls, dying, posts } from '../scene.ts'
import { begin, PROMPTS, readBig, talkOf } from './journey.ts'
import { claude } from './programs.ts'
import { trials } from './trials.ts'

const shown = (stdout: string): string => (JSON.parse(stdout) as { result: string }).result

trials(claude(), { sources: ['agent', 'agent', 'agent', 'agent', 'agent'], shown, rewords: true })

test('claude: after an error inside a stream it retries without streaming', async () => {
  let lives = 1
  const program = claude()
  const journey = await begin(program, {
    script: (place) => (last, prompt) =>
      lives-- > 0 ? dying('Half an answer that is cut', 3) : talkOf(program, place)(last, prompt),
  })
  try {
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    assert.deepEqual(
      posts(journey.scene.wire).map(({ body }) => (JSON.parse(body) as { stream?: boolean }).stream ?? false),
      [true, false, true],
    )
    const story = await journey.scene.story()
    assert.deepEqual(
      [story.of('attempt'), story.of('next')],
      [
        [1, 2, 1],
        [null, 2, null],
      ],
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('claude: an answer that is cut after its reasoning is requested again, also with a user message that the agent adds', async () => {
  const journey = await begin(claude())
  try {
    journey.scene.wire.dropAt('content_block_stop')
    assert.equal((await journey.say(PROMPTS[0])).code, 0)
    const story = await journey.scene.story()
    if (posts(journey.scene.wire)[1]!.body.includes('Your response above was cut off mid-stream'))
      await journey.record('claude.reworded')
    assert.deepEqual(
      [story.of('session'), story.of('status'), story.of('next'), story.of('offPrefix')],
      [
        [0, 0, 0],
        ['aborted', 'complete', 'complete'],
        [null, 2, null],
        [false, false, false],
      ],
    )
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

for (const hints of [true, false]) {
  test(`claude: a context overflow starts a compaction, ${hints ? 'with' : 'without'} headers that mark it, and the session continues after it`, async () => {
    const program = claude(hints ? {} : { CLAUDE_CODE_GATEWAY_HINT_HEADERS: '0' })
    const journey = await begin(program, {
      tape: hints ? 'claude.compaction' : 'claude.compaction-unmarked',
      contextLength: 25_700,
      script: (place) => (last) => {
        if (last.includes('CRITICAL: Respond with TEXT ONLY'))
          return '<analysis>\nShort.\n</analysis>\n<summary>\nThe file was read.\n</summary>'
        if (last.includes('Read the big file') && !last.includes('The file was read.'))
          return calls(program.read(place, 'a3.txt'))
        return 'It is done.'
      },
    })
    try {
      // After a compaction the program attaches a file of less than some 20,000 characters again.
      await readBig(journey, undefined, 430)
      const story = await journey.scene.story()
      assert.deepEqual(
        posts(journey.scene.wire)
          .filter(({ path: to }) => !to.includes('count_tokens'))
          .map(({ status }) => status),
        [200, 400, 200, 200, 200],
      )
      assert.deepEqual(story.of('kind'), ['main', 'side', 'main', 'main'])
      assert.deepEqual(story.of('session'), [0, 0, 0, 0])
      assert.deepEqual(story.of('next'), [null, null, 3, null])
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}

test('claude: a subagent has a session of its own', async () => {
  const program = claude()
  const journey = await begin(program, {
    tape: 'claude.subagent',
    script: (place) => (last) => {
      if (last.includes('Delegate it.'))
        return calls([
          'Agent',
          '{"subagent_type": "general-purpose", "run_in_background": false, "prompt": "Inspect a1.txt please", "description": "inspect"}',
        ])
      if (last.includes('The child says red')) return 'The child is right.'
      return last.includes('It is red') ? 'The child says red.' : calls(program.read(place, 'a1.txt'))
    },
  })
  try {
    const { code, stdout } = await journey.say('Delegate it.')
    assert.deepEqual([code, shown(stdout)], [0, 'The child is right.'])
    const story = await journey.scene.story()
    assert.deepEqual(
      [story.of('session'), story.of('next')],
      [
        [0, 1, 1, 0],
        [3, 2, null, null],
      ],
    )
    assert.deepEqual(story.of('kind'), ['main', 'main', 'main', 'main'])
    assert.deepEqual(story.of('offPrefix'), [false, false, false, false])
    assert.ok(story.sessions[1]!.startsWith(story.sessions[0]!))
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})

test('claude: a background subagent, whose result arrives as a user message, has a session of its own', async () => {
  const program = claude()
  const journey = await begin(program, {
    tape: 'claude.background',
    script: (place) => (last) => {
      if (last.includes('Delegate it.'))
        return calls([
          'Agent',
          '{"subagent_type": "general-purpose", "prompt": "Inspect a1.txt please", "description": "inspect"}',
        ])
      if (last.includes('<task-notification>')) return 'The child is right.'
      if (last.includes('Async agent launched')) return 'I wait.'
      return last.includes('It is red') ? 'The child says red.' : calls(program.read(place, 'a1.txt'))
    },
  })
  try {
    const { code, stdout } = await journey.say('Delegate it.')
    assert.deepEqual([code, shown(stdout)], [0, 'The child is right.'])
    const story = await journey.scene.story()
    const of = (session: number): number[] => story.turns.flatMap((turn, i) => (turn.session === session ? [i] : []))
    assert.deepEqual([of(0).length, of(1).length], [3, 2])
    for (const session of [0, 1]) assertChained(story, of(session))
    // The second turn has no next state.
    const became = await journey.scene.became()
    assert.equal(became[of(0)[1]!]!.heard!.user, '')
    assertAnswered(journey.scene, story)
  } finally {
    await journey.end()
  }
})
