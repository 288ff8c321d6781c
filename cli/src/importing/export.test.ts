import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { records, turn } from '../../../test/kit/projected-history.ts'
import { exportLines, type ExportReport } from './export.ts'

const newReport = (): ExportReport => ({
  sessions: 0,
  turns: 0,
  aborted: 0,
  unshown: 0,
  feedback: 0,
  outcomes: 0,
  discarded: 0,
  damaged: 0,
  unreadable: [],
})

test('sessions beyond the room of the tables are exported once each, in the order of the log, from a temporary file', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-test-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = folder
  t.after(() => {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
  })
  const SESSIONS = 5_000
  const log = openMemoryLog()
  const numbers = Array.from({ length: SESSIONS }, (_, i) => i)
  for (const round of ['a', 'b'])
    for (let from = 0; from < SESSIONS; from += 500)
      await log.append(
        records(
          numbers
            .slice(from, from + 500)
            .map((i) => turn({ session: `s${i}`, name: `${round}${i}`, says: `${round} ${i}` })),
        ),
      )
  const report = newReport()
  const found = new Map<string, number>()
  const lines = await exportLines(log, null, report)
  assert.equal(readdirSync(folder).length, 1, 'the fold is in a temporary file')
  let line = 0
  for await (const text of lines) {
    const { session_id } = JSON.parse(text) as { session_id: string }
    if (line++ % 2 === 0) assert.equal(session_id, `s${found.size}`)
    found.set(session_id, (found.get(session_id) ?? 0) + 1)
  }
  assert.deepEqual(readdirSync(folder), [])
  assert.deepEqual([found.size, [...found.values()].every((count) => count === 2)], [SESSIONS, true])
  assert.deepEqual([report.sessions, report.turns, report.unreadable], [SESSIONS, 2 * SESSIONS, []])
  await assert.rejects(exportLines(log, 'nobody', newReport()), { code: 'unknown_turn' })
  assert.deepEqual(readdirSync(folder), [])
})
