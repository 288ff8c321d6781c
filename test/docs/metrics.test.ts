import { equal } from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { METRICS_PAGE, metricsPage } from './metrics.ts'

test('docs/metrics.md has the text of the table for each metric', { skip: process.platform !== 'linux' }, async () => {
  equal(
    await readFile(METRICS_PAGE, 'utf8'),
    await metricsPage(),
    'generate it with: node bootstrap.cjs test/docs/metrics.ts',
  )
})
