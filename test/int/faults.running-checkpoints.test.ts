/** Services on Kafka that write checkpoints themselves: beside their work, each its own state, through kills. */
import { deepEqual, equal } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { checkpointsOn, type CheckpointsReport } from '@instar/log'
import { seeded } from '../../models/tiny/recipe/random.ts'
import { checkAnswered, checkNoCrash, checkWork } from '../chaos/world/checks.ts'
import { History } from '../chaos/world/history.ts'
import { newLedger, startPeople } from '../chaos/world/people.ts'
import { startWorld, type World } from '../chaos/world/world.ts'

const files = mkdtempSync(join(tmpdir(), 'instar-int-running-'))
let world: World | null = null
after(async () => {
  await world?.end()
  rmSync(files, { recursive: true, force: true })
})

const WRITERS: Readonly<Record<string, string>> = {
  'scorer.policy': 'scorer',
  'trainer.policy': 'trainer',
  'audit.policy': 'trainer',
  'publisher.policy': 'publisher',
}

test(
  'services write checkpoints beside their work, one of two scorers among them, and they hold',
  { timeout: 480_000 },
  async (t) => {
    const stack = (world = await startWorld({
      services: { gateway: 1, scorer: 2, projections: 0 },
      env: {
        INSTAR_CHECKPOINTS: files,
        INSTAR_CHECKPOINT_TURNS: '1',
        INSTAR_CHECKPOINT_STATES: 'scorer,trainer,publisher,audit',
      },
    }))
    const [history, ledger] = [new History(), newLedger()]
    await history.follow(stack.log)
    const people = startPeople({
      gateways: stack.of('gateway'),
      sessions: 4,
      random: seeded(Number(process.env['INSTAR_SEED'] ?? 1)),
      ledger,
      breathMs: 500,
    })
    await history.until('a version', () => history.versions.length > 1)
    // Each looks at the log when it starts, and then once a minute. An emptied folder: it starts from a checkpoint, if there is one.
    const learning = (['scorer', 'trainer', 'publisher'] as const).flatMap((kind) => stack.of(kind))
    await Promise.all(learning.map((service) => service.kill(true)))
    await stack.ready()
    const own = async (): Promise<[string, string][]> =>
      (await checkpointsOn(stack.log)).map(({ event: { name, who } }) => [name, who])
    const names = async (): Promise<string[]> => [...new Set((await own()).map(([name]) => name))].sort()
    while ((await names()).length < Object.keys(WRITERS).length) await people.more(4)
    await people.leave()
    await history.untilSettled()
    deepEqual(await names(), Object.keys(WRITERS).sort())
    for (const [name, who] of await own()) equal(who, WRITERS[name])
    const { ok, checkpoints } = JSON.parse(
      (await stack.instar('verify', '--checkpoints', '--json')).trim().split('\n').at(-1)!,
    ) as CheckpointsReport
    equal(ok, true)
    deepEqual(
      checkpoints.filter(({ ok: holds }) => holds !== true),
      [],
    )
    checkAnswered(ledger, history)
    checkWork(history)
    checkNoCrash(stack)
    t.diagnostic(`${checkpoints.length} checkpoints; ${history.summary()}`)
  },
)
