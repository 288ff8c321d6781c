import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sourceFiles, ROOT } from '../../tools/tree.ts'

/** Encodes records to compare them in one process; nothing of it is appended. */
const COMPARES = 'services/trainer/src/core/ahead.ts'
const WRITERS = /^(services|cli\/src|packages\/(?:log|process)\/src)\/.*(?<!\.test)\.ts$/

test('each writer of records passes the versions that the readers of the log have', () => {
  let calls = 0
  for (const path of sourceFiles().filter((one) => WRITERS.test(one) && one !== COMPARES)) {
    for (const [call] of readFileSync(join(ROOT, path), 'utf8').matchAll(
      /(?<!type )\b(encodeEvent|encodeRecord)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g,
    )) {
      calls += 1
      assert.match(call, /,\s*(versionsOn\(.*\)|(state|append)\.versions|versions),?\s*\)$/, `${path}: ${call}`)
    }
  }
  assert.ok(calls >= 11, `${calls} calls`)
})
