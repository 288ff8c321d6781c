import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { createCopyProgress, createCountProgress } from './copy-progress.ts'

test('progress: on a terminal one line that is overwritten, elsewhere a line every 5 s with the remaining time', () => {
  let at = 0
  const lines: string[] = []
  const progress = createCopyProgress(
    (text) => lines.push(text),
    false,
    () => at,
  )
  const show = (share: number): void =>
    progress.show({ phase: 'copy', topic: 'turns', share, records: 1000 * share, bytes: 5e6 * share })
  for (const [time, share] of [
    [0, 0.01],
    [6000, 0.2],
    [7000, 0.25],
    [30_000, 1],
  ] as const) {
    at = time
    show(share)
  }
  deepEqual(lines, [
    'copy         turns   ████░░░░░░░░░░░░░░░░  20%  200 records, 1.0 MB, about 24 s left of this topic\n',
    'copy         turns   ████████████████████ 100%  1000 records, 5.0 MB\n',
  ])
  const drawings: string[] = []
  const terminal = createCopyProgress(
    (text) => drawings.push(text),
    true,
    () => 0,
  )
  terminal.show({ phase: 'compare', topic: 'blobs', share: 1, records: 0, bytes: 0 })
  terminal.end()
  deepEqual([drawings.length, drawings.every((text) => text.startsWith('\r\x1b[2K'))], [2, true])
})

test('progress by count: on a terminal one line that is overwritten, elsewhere a line every 5 s', () => {
  let at = 0
  const lines: string[] = []
  const show = createCountProgress(
    'batches',
    (text) => lines.push(text),
    false,
    () => at,
  )
  for (const [time, done] of [
    [0, 1],
    [4999, 2],
    [5000, 10],
    [9999, 20],
    [10_000, 40],
  ] as const) {
    at = time
    show(done, 40)
  }
  deepEqual(lines, ['█████░░░░░░░░░░░░░░░ 10/40 batches\n', '████████████████████ 40/40 batches\n'])
  const drawings: string[] = []
  createCountProgress('batches', (text) => drawings.push(text), true)(1, 2)
  deepEqual(drawings, ['\r\x1b[2K██████████░░░░░░░░░░ 1/2 batches'])
})
