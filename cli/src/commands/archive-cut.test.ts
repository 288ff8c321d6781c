/** `instar archive cut` on an embedded log. */
import { schemaTexts } from '@instar/events'
import { cutsOn, openEmbeddedLog } from '@instar/log'
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { longHistory } from '../../../test/kit/long-history.ts'

type Cut = {
  dryRun: boolean
  topics: Record<'turns' | 'scores', { records: number; bytes: number }>
  unarchived: { records: number }
  record: string | null
  completed: boolean
  checkpoints: { name: string }[]
  file: number
}

test(
  '`archive cut` says what it would delete, deletes it, and leaves a log that commands read on',
  { timeout: 150_000 },
  async () => {
    const [data, place] = [join(folder(), 'data'), join(folder(), 'archive')]
    const env = { INSTAR_DATA: data }
    const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    const records = [...longHistory({ turns: 3000 })]
    for (let at = 0; at < records.length; at += 1000) await log.append(records.slice(at, at + 1000))
    await log.close()
    const done = async (args: string[]): Promise<unknown> => {
      const { code, json, err } = await instar([...args, '--json'], env)
      equal(code, 0, `${args.join(' ')}: ${err}`)
      return json
    }
    const refused = async (args: string[], code: number, err: RegExp): Promise<void> => {
      const result = await instar(['archive', 'cut', ...args], env)
      deepEqual([result.code, err.test(result.err)], [code, true], result.err)
    }
    await done(['archive', '--to', place])
    await refused([], 2, /--from PLACE is required/)
    await refused(['--from', place, '--keep-days', '3'], 2, /not a number of days from 7 on/)
    await refused(['--from', place, '--to', place], 2, /--to is no option of archive cut/)
    await refused(['--from', place], 1, /no_checkpoint: no checkpoint of scorer.policy can be used: there is none/)
    await done(['checkpoint', 'scorer', 'trainer', 'publisher', 'gateway', 'audit'])
    await refused(['--from', folder()], 1, /archive_damaged/)
    // The newest records are the checkpoints, which are not archived and not cut.
    const planned = (await done(['archive', 'cut', '--from', place, '--dry-run'])) as Cut
    deepEqual([planned.dryRun, planned.record, planned.completed], [true, null, false])
    ok(planned.topics.turns.records >= 2000, JSON.stringify(planned.topics))
    const holder = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
    await refused(['--from', place], 1, /data_in_use/)
    equal((await cutsOn(holder)).length, 0)
    await holder.close()

    const [damaged, without] = [join(folder(), 'damaged'), join(folder(), 'without')]
    cpSync(data, damaged, { recursive: true })
    const db = new DatabaseSync(join(damaged, 'log', 'log.db'))
    db.exec('UPDATE turns SET checksum = checksum + 1 WHERE offset = 5')
    db.close()
    const ofDamaged = (...args: string[]) => instar(['archive', ...args], { INSTAR_DATA: damaged })
    equal((await ofDamaged('--to', without)).code, 0)
    const said = await ofDamaged('cut', '--from', without, '--dry-run')
    match(
      said.out,
      /\nof these 1 cannot be read and is not in the archive: turns \d@5; only --delete-unreadable deletes them\n/,
    )
    const kept = await ofDamaged('cut', '--from', without)
    deepEqual([kept.code, /not_archived: nothing is cut: .* turns \d@5/.test(kept.err)], [1, true], kept.err)

    const cut = (await done(['archive', 'cut', '--from', place])) as Cut
    equal(cut.unarchived.records, 0)
    deepEqual(
      [cut.topics.turns.records, cut.topics.scores.records],
      [planned.topics.turns.records, planned.topics.scores.records],
    )
    match(cut.record ?? '', /^[0-9a-f]{64}$/)
    deepEqual(
      cut.checkpoints.map(({ name }) => name),
      ['scorer.policy', 'trainer.policy', 'publisher.policy', 'gateway.policy.turns', 'audit.policy'],
    )
    const again = await instar(['archive', 'cut', '--from', place], env)
    match(again.out, /there is nothing to cut; \d+ records are as the archive has them/)

    const whole = await instar(['verify', 'all', '--digests'], env)
    equal(whole.code, 1)
    match(whole.err, /(log_truncated|log_cut): (scores|turns) \d/)
    await done(['verify', 'all', '--from-checkpoint', '--digests'])
    await done(['checkpoint', 'scorer'])
    await done(['archive', '--to', place])
    const compared = (await done(['archive', 'verify', '--from', place, '--log'])) as {
      log: { first: unknown; behind: number }
    }
    deepEqual([compared.log.first, compared.log.behind], [null, 0])
    const doctor = await instar(['doctor', '--json'], env)
    const { checks } = doctor.json as { checks: { name: string; level: string; found: string }[] }
    const records2 = checks.find(({ found }) => /\d+ turns/.test(found))
    equal(records2?.level, 'ok', JSON.stringify(checks))
    match(records2?.found ?? '', /cut/)
  },
)
