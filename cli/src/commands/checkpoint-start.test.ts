/** `instar up` on a data folder without snapshots: its services start from the checkpoints. */
import { deepEqual, equal } from 'node:assert/strict'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { up } from '../../../test/kit/up.ts'

test(
  'scorer, trainer and publisher of `instar up` start from checkpoints, and only where they have no snapshot',
  { timeout: 150_000 },
  async () => {
    const data = join(folder(), 'data')
    /** The states that a start took from checkpoints. */
    const start = async (): Promise<string[]> => {
      const { child, ended, err } = await up(data)
      child.kill('SIGTERM')
      deepEqual(await ended, [0, null], err())
      return [...err().matchAll(/(\w+\.\w+): starts from the checkpoint of /g)].map(([, name]) => name!).sort()
    }
    deepEqual(await start(), [])
    const env = { INSTAR_DATA: data }
    equal((await instar(['checkpoint'], env)).code, 0)
    deepEqual(await start(), [])
    const snapshots = join(data, 'snapshots')
    for (const name of readdirSync(snapshots).filter((one) => /^(scorer|trainer|publisher)\./.test(one)))
      rmSync(join(snapshots, name))
    deepEqual(await start(), ['publisher.policy', 'scorer.policy', 'trainer.policy'])
    equal((await instar(['verify', '--checkpoints'], env)).code, 0)
  },
)
