/** pi, `pi -p`, on Chat Completions. It sends no session id by default. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered, calls } from '../scene.ts'
import { begin, PROMPTS, readBig } from './journey.ts'
import { pi } from './programs.ts'
import { trials } from './trials.ts'

const shown = (stdout: string): string => stdout

trials(pi(), { sources: ['fingerprint', 'minted', 'minted', 'minted', 'minted'], shown })

const AFFINITY = { compat: { sendSessionAffinityHeaders: true } }
trials(
  { ...pi(AFFINITY), name: 'pi with session headers' },
  { sources: ['agent', 'agent', 'agent', 'agent', 'agent'], shown },
)

for (const header of [false, true]) {
  test(`pi: a compaction is a side turn, and the session continues after it, found by ${header ? 'its headers' : 'the ids of tool calls'}`, async () => {
    const program = pi(
      { contextWindow: 18_000, maxTokens: 500, ...(header ? AFFINITY : {}) },
      { compaction: { enabled: true, reserveTokens: 9000, keepRecentTokens: 20 } },
    )
    const journey = await begin(program, {
      tape: header ? 'pi-with-session-headers.compaction' : 'pi.compaction',
      script: (place) => (last) => {
        if (last.includes('context summarization assistant')) return 'The file was read.'
        if (last.includes('Write it down')) return calls(program.write(place, 'note.txt', 'purple'))
        if (last.includes('Read the big file')) return calls(program.read(place, 'a3.txt'))
        return 'It is done.'
      },
    })
    try {
      await readBig(journey, ['Read the big file.', `Write it down.${' And mind every word.'.repeat(400)}`, PROMPTS[2]])
      const story = await journey.scene.story()
      assert.deepEqual(story.of('kind'), ['main', 'main', 'main', 'side', 'main', 'main'])
      assert.deepEqual(story.of('session'), [0, 0, 0, 1, 0, 0])
      assert.deepEqual(story.of('next'), [1, 2, 4, null, 5, null])
      assert.deepEqual(story.of('reason'), [null, null, null, 'side', null, null])
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}
