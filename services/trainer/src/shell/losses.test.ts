import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { openLosses } from './losses.ts'

test('computations that ended the engine stay counted; another batch, a spared and a settled one do not', (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'instar-losses-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const first = openLosses(folder, 'policy')
  first.begin('a')
  first.begin('a')
  assert.equal(first.of('a'), 2)
  const file = path.join(folder, 'trainer.policy.losses.json')
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const second = openLosses(folder, 'policy')
  assert.deepEqual([second.of('a'), second.of('b')], [2, 0])
  assert.equal(openLosses(folder, 'other').of('a'), 0)
  second.begin('a')
  second.spared('a')
  assert.equal(openLosses(folder, 'policy').of('a'), 2)
  second.begin('b')
  assert.deepEqual([second.of('a'), second.of('b')], [0, 1])
  second.settled()
  assert.equal(openLosses(folder, 'policy').of('b'), 0)
})

test('a file that cannot be read or written counts nothing before this process, and does not stop it', (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'instar-losses-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = path.join(folder, 'trainer.policy.losses.json')
  for (const bytes of ['', '{', '[]', '{"batch":"a","count":-1}']) {
    writeFileSync(file, bytes)
    assert.equal(openLosses(folder, 'policy').of('a'), 0)
  }
  for (const place of [null, path.join(file, 'below a file')]) {
    const losses = openLosses(place, 'policy')
    losses.begin('a')
    assert.equal(losses.of('a'), 1)
    losses.settled()
    assert.equal(losses.of('a'), 0)
  }
})
