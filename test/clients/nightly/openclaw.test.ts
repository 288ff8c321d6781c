/** OpenClaw, `openclaw agent --local`, on Chat Completions: a message of its own always stands last, ids come back without some of their characters. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertAnswered } from '../scene.ts'
import { begin, travel } from '../agents/journey.ts'
import { openclaw } from '../agents/programs.ts'

for (const [name, model] of [['openclaw', {}], ['openclaw-with-session-headers', { compat: { sendSessionAffinityHeaders: true } }]] as const) {
  test(`${name}: three prompts by three processes: one session`, async () => {
    const journey = await begin(openclaw(model), { tape: `${name}.journey` })
    try {
      await travel(journey)
      const story = await journey.scene.story()
      assert.deepEqual(story.of('session'), [0, 0, 0, 0, 0])
      assert.deepEqual(story.of('kind'), ['main', 'main', 'main', 'main', 'main'])
      assert.deepEqual(story.of('next'), [1, 2, 3, 4, null])
      assertAnswered(journey.scene, story)
    } finally {
      await journey.end()
    }
  })
}
