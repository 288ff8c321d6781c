/** `instar up` on a log that was cut: its services go on from their snapshots, and from checkpoints where these are gone. */
import { encodeEvent, schemaTexts, type Event } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { captured } from '../../../test/kit/scored-history.ts'
import { up } from '../../../test/kit/up.ts'

test(
  'services start on a cut log from their snapshots, and one without from its checkpoint',
  { timeout: 170_000 },
  async () => {
    const [data, place] = [join(folder(), 'data'), join(folder(), 'archive')]
    const env = { INSTAR_DATA: data }
    const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    // Of another policy, so that nothing is scored and trained.
    const turn = (i: number): Event =>
      captured({
        session: `s${i >> 3}`,
        messages: [{ role: 'user', content: `What is ${i}?` }],
        answer: `It is ${i}.`,
        at: 10 + i,
        name: i.toString(16).padStart(8, '0'),
        policy: 'elsewhere',
      })
    await log.append(Array.from({ length: 1200 }, (_, i) => encodeEvent(turn(i))))
    await log.close()
    const start = async (): Promise<string[]> => {
      const { child, ended, err } = await up(data)
      child.kill('SIGTERM')
      deepEqual(await ended, [0, null], err())
      return [...err().matchAll(/([\w.]+): starts from the checkpoint of /g)].map(([, name]) => name!).sort()
    }
    const done = async (args: string[]): Promise<unknown> => {
      const { code, json, err } = await instar([...args, '--json'], env)
      equal(code, 0, `${args.join(' ')}: ${err}`)
      return json
    }
    await start()
    await done(['checkpoint', 'scorer', 'trainer', 'publisher', 'gateway', 'audit'])
    await done(['archive', '--to', place])
    const { topics } = (await done(['archive', 'cut', '--from', place])) as {
      topics: { turns: { records: number } }
    }
    ok(topics.turns.records >= 1000, JSON.stringify(topics))
    const snapshots = join(data, 'snapshots')
    for (const name of readdirSync(snapshots).filter((one) => /^(scorer|gateway)\./.test(one)))
      rmSync(join(snapshots, name), { recursive: true })
    deepEqual(await start(), ['gateway.policy.turns', 'scorer.policy'])
  },
)
