/** A conversation whose earlier turn was cut from the log, at a gateway that starts from its snapshot. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { schemaTexts } from '@instar/events'
import {
  Archive,
  namingArchive,
  openFolderStore,
  openMemoryLog,
  openSnapshots,
  withArchive,
  type EventLog,
} from '@instar/log'
import { startRig, turnOf, USER, type Rig } from '../../../../test/kit/gateway.ts'
import { archiveTo, cutBelow } from '../../../../test/kit/event-log/cut-log.ts'

const ANSWER = 'Hello there, how are you?'
const SAID = { role: 'assistant', content: ANSWER }

const ask = async (rig: Rig, messages: unknown[], session: string | null = null): Promise<string> => {
  const headers: Record<string, string> = session === null ? {} : { 'x-session-id': session }
  const answer = await rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages }, headers })
  equal(answer.status, 200, await answer.clone().text())
  return answer.headers.get('x-instar-turn-id')!
}

const respond = (rig: Rig, input: string, previous: string | null): Promise<Response> =>
  rig.fetch('/v1/responses', { json: { model: 'policy', input, previous_response_id: previous } })

test('goes on without an archive as an unknown one, and with it as before; no request fails', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-cut-turns-'))
  const log = openMemoryLog({ partitions: { turns: 1 } })
  const rigs: Rig[] = []
  t.after(async () => {
    await Promise.all(rigs.map((rig) => rig.stop()))
    rmSync(folder, { recursive: true })
  })
  const start = async (on: EventLog): Promise<Rig> => {
    const rig = await startRig({ log: on, ports: { snapshots: openSnapshots(join(folder, 's')) } })
    rigs.push(rig)
    return rig
  }
  const first = await start(log)
  const talk = [USER(`Hi ${'and so on '.repeat(60)}`), SAID, USER('And now?')]
  await ask(first, talk.slice(0, 1))
  const second = await ask(first, talk)
  const response = (await (await respond(first, 'A question', null)).json()) as { id: string }
  equal((await respond(first, 'Another', response.id)).status, 200)
  for (const i of [1, 2, 3]) await ask(first, [USER(`Other ${i}`)], `other-${i}`)
  await first.stop()
  const { session, body } = await turnOf(log, second)
  ok(body.from !== null)

  const archive = join(folder, 'archive')
  const manifest = await archiveTo(log, archive, { schemas: schemaTexts() })
  const end = (await log.ends(['turns'])).turns![0]!
  await cutBelow(log, { turns: end }, { archive, manifest })
  equal((await log.starts!(['turns'])).turns![0], end - 1)

  const next = [...talk, SAID, USER('And then?')]
  const refused: string[] = []
  const alone = await start(namingArchive(log, ({ code }) => refused.push(code)))
  const goneOn = await turnOf(withArchiveAt(log, archive), await ask(alone, next))
  deepEqual([goneOn.session === session, goneOn.body.from, goneOn.prompt.from], [false, null, null])
  const unknown = await respond(alone, 'Another', response.id)
  ok([400, 404].includes(unknown.status), await unknown.text())
  equal((await alone.fetch(`/v1/responses/${response.id}`)).status, 404)
  deepEqual(refused, ['log_cut'])
  await alone.stop()

  const archived = withArchiveAt(log, archive)
  const whole = await start(archived)
  const other = await turnOf(archived, await ask(whole, [...talk, SAID, USER('And what else?')]))
  equal(other.session, session)
  ok(other.body.from !== null)
  equal((await respond(whole, 'Another', response.id)).status, 200)
  equal((await whole.fetch(`/v1/responses/${response.id}`)).status, 200)
  await whole.stop()
})

const withArchiveAt = (log: EventLog, archive: string): EventLog => {
  const store = openFolderStore(archive, false)
  return withArchive(log, {
    address: archive,
    open: () => Archive.open(store, { keptBytes: 1 << 20 }),
    close: () => store.close(),
  })
}
