import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError } from '@instar/events'
import { createWaitReports } from './wait-reports.ts'

test('a wait is reported once for each reason and again after an act succeeded; errors of a batch are not', () => {
  const lines: string[] = []
  const reports = createWaitReports(({ number, reason }) => lines.push(`${number} ${reason}`))
  const denied = new InstarError('trainer_denied', '402')
  for (let at = 0; at < 5; at++) reports.failed(3, denied)
  reports.failed(3, new InstarError('parent_lost', 'version 2'))
  reports.failed(3, new InstarError('bad_request', 'a turn'))
  reports.ended()
  reports.failed(3, denied)
  assert.deepEqual(lines, ['3 trainer_denied: 402', '3 parent_lost: version 2', '3 trainer_denied: 402'])
})
