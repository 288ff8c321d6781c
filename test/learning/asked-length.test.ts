import { equal } from 'node:assert/strict'
import { test } from 'node:test'
import { lengthWish } from '../../services/publisher/src/core/asked-length.ts'
import { WORDINGS } from '../../services/scorer/src/core/hints.ts'

test('the gate reads the scorer’s hints for a length, and takes no other one of its hints for one', () => {
  for (const [kind, wordings] of Object.entries(WORDINGS))
    for (const hint of wordings) equal(lengthWish(hint), { longer: 1, shorter: -1 }[kind] ?? 0, hint)
})
