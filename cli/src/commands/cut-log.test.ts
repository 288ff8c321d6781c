/** Commands on a log that was cut, with its archive, against the same log before the cut. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { schemaTexts } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { folder, instar, type CliResult } from '../../../test/kit/cli.ts'
import { archiveTo, cutBelow } from '../../../test/kit/event-log/cut-log.ts'
import { longHistory } from '../../../test/kit/long-history.ts'

const TURNS = 1600

test('verify, show, export, log copy and archive say of a cut log what they said before, with its archive alone', async () => {
  const [data, archive] = [join(folder(), 'data'), join(folder(), 'archive')]
  const open = () => openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  const log = await open()
  await log.append([...longHistory({ turns: TURNS, updates: true })])
  await log.close()
  const env = { INSTAR_DATA: data }
  equal((await instar(['checkpoint', 'audit'], env)).code, 0)

  const read = async (more: object = {}): Promise<Record<string, unknown>> => {
    const [copied, exported] = [join(folder(), 'copy'), join(folder(), 'turns.jsonl')]
    const ran = async (...args: string[]): Promise<CliResult> => {
      const result = await instar([...args, '--json'], { ...env, ...more })
      equal(result.code, 0, `${args.join(' ')}: ${result.err}`)
      return result
    }
    const said: Record<string, unknown> = {
      verify: (await ran('verify', 'all', '--digests')).json,
      from: (await ran('verify', 'all', '--digests', '--from-checkpoint')).json,
      checkpoints: (await ran('verify', '--checkpoints')).json,
      show: (await ran('show', '1')).json,
      versions: (await ran('versions')).json,
    }
    await ran('export', exported)
    said['export'] = readFileSync(exported, 'utf8')
    const copy = (await ran('log', 'copy', '--from', 'embedded', '--to', `embedded:${copied}`)).json as {
      topics: Record<string, unknown>
      equal: boolean
    }
    ok(copy.equal)
    said['copy'] = [copy.topics['turns'], copy.topics['scores']]
    return said
  }
  const before = await read()
  ok(String(before['export']).split('\n').length > TURNS)

  const again = await open()
  const manifest = await archiveTo(again, archive, { schemas: schemaTexts(), objectBytes: 1 << 16 })
  const starts = await cutBelow(again, { turns: 1500, scores: 1500 }, { archive, manifest })
  ok(
    Object.values(starts.turns!).some((start) => start > 900),
    JSON.stringify(starts),
  )
  await again.close()
  deepEqual(await read({ INSTAR_ARCHIVE: archive }), before)

  const without = await instar(['verify', 'all', '--digests'], env)
  equal(without.code, 1)
  match(without.err, new RegExp(`log_cut: (turns|scores) \\d+ begins at offset \\d+: .*${archive}\\n.*INSTAR_ARCHIVE`))
  equal((await instar(['verify', 'all', '--digests', '--archive', archive], env)).code, 0)
  const wrong = await instar(['verify', 'all', '--archive', 'ftp://x'], env)
  match(wrong.err, /bad_request: INSTAR_ARCHIVE: ftp:\/\/x is not the place of an archive/)

  // The archive goes on, and one in another place has all of the log.
  const [same, another] = [archive, join(folder(), 'another')].map((to) =>
    instar(['archive', '--to', to, '--json'], { ...env, INSTAR_ARCHIVE: archive }),
  )
  equal((await same!).code, 0, (await same!).err)
  equal((await another!).code, 0, (await another!).err)
  const topics = (await another!).json as { topics: { turns: { records: number } } }
  equal(topics.topics.turns.records, TURNS)
})
