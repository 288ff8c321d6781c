/** Checkpoints of `instar up`: its services start from them without snapshots, and it writes them itself. */
import { deepEqual, equal, fail } from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { encodeEvent, schemaTexts } from '@instar/events'
import { openEmbeddedLog, type Append } from '@instar/log'
import { folder, instar } from '../../../test/kit/cli.ts'
import { longHistory } from '../../../test/kit/long-history.ts'
import { captured } from '../../../test/kit/scored-history.ts'
import { up } from '../../../test/kit/up.ts'

/** Makes a log. */
const logWith = async (data: string, records: readonly Append[]): Promise<void> => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  await log.append(records)
  await log.close()
}

test(
  'the services of `instar up` start from checkpoints, and only where they have no snapshot',
  { timeout: 150_000 },
  async () => {
    const data = join(folder(), 'data')
    /** The states that a start took from checkpoints. */
    const start = async (): Promise<string[]> => {
      const { child, ended, err } = await up(data)
      child.kill('SIGTERM')
      deepEqual(await ended, [0, null], err())
      return [...err().matchAll(/([\w.]+): starts from the checkpoint of /g)].map(([, name]) => name!).sort()
    }
    // Of another policy, so that nothing is scored and trained.
    const answer = captured({
      session: 's',
      messages: [{ role: 'user', content: 'Hi' }],
      answer: 'Hello.',
      at: 1,
      name: 'n',
      policy: 'elsewhere',
    })
    await logWith(data, [encodeEvent(answer)])
    deepEqual(await start(), [])
    const env = { INSTAR_DATA: data }
    equal((await instar(['checkpoint'], env)).code, 0)
    deepEqual(await start(), [])
    const snapshots = join(data, 'snapshots')
    for (const name of readdirSync(snapshots).filter((one) => /^(scorer|trainer|publisher|gateway)\./.test(one)))
      rmSync(join(snapshots, name), { recursive: true })
    deepEqual(await start(), ['gateway.policy.turns', 'publisher.policy', 'scorer.policy', 'trainer.policy'])
    equal((await instar(['verify', '--checkpoints'], env)).code, 0)
  },
)

test('`instar up` writes checkpoints itself where the settings say so, and they hold while it runs', async () => {
  const data = join(folder(), 'data')
  // Turns alone, so that the line begins with the model of this pipeline.
  await logWith(
    data,
    [...longHistory({ turns: 200 })].filter(({ topic }) => topic === 'turns'),
  )
  const more = { INSTAR_CHECKPOINT_TURNS: '10', INSTAR_CHECKPOINT_STATES: 'scorer,trainer,publisher,gateway,audit' }
  const { child, ended, err } = await up(data, [], more)
  const states = (): string[] => [...err().matchAll(/checkpoint of ([\w.]+) written/g)].map(([, name]) => name!)
  while (states().length < 5) await Promise.race([once(child.stderr!, 'data'), ended.then(() => fail(err()))])
  deepEqual(states(), ['scorer.policy', 'trainer.policy', 'publisher.policy', 'gateway.policy.turns', 'audit.policy'])
  const verified = await instar(['verify', '--checkpoints', '--json'], { INSTAR_DATA: data })
  equal(verified.code, 0, verified.err)
  const { checkpoints } = verified.json as { checkpoints: { name: string; ok: boolean; file: string }[] }
  deepEqual(
    checkpoints.map(({ name, ok, file }) => [name, ok, file]),
    states().map((name) => [name, true, 'equal']),
  )
  child.kill('SIGTERM')
  deepEqual(await ended, [0, null], err())
})
