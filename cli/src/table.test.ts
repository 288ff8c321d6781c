import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { minuteText, rowsTable, table } from './table.ts'

test('numbers are right-aligned, text is left-aligned, null is a dash', () => {
  const rows = [
    { n: 1, name: 'one', x: 0.5 },
    { n: 12, name: 'a', x: null },
  ]
  equal(
    table(
      [
        { name: 'n', of: (row) => row.n },
        { name: 'name', of: (row) => row.name },
        { name: 'x', of: (row) => row.x },
      ],
      rows,
    ),
    ' n  name     x\n──  ────  ────\n 1  one   0.50\n12  a        –\n',
  )
})

test('query results keep the order of their columns; objects are JSON', () => {
  equal(rowsTable([{ a: 1, b: { c: true } }]), 'a  b\n─  ──────────\n1  {"c":true}\n(1 row)\n')
  equal(rowsTable([]), '(0 rows)\n')
})

test('control characters in a cell are escaped', () => {
  equal(
    rowsTable([{ hint: 'two\nlines\t\u001b[2J\u009b' }]),
    `hint\n${'─'.repeat(23)}\ntwo\\nlines\\t\\x1b[2J\\x9b\n(1 row)\n`,
  )
})

test('minuteText is UTC, to the minute', () => {
  equal(minuteText(Date.UTC(2026, 10, 21, 9, 5, 59)), '2026-11-21 09:05')
  equal(minuteText(null), null)
})
