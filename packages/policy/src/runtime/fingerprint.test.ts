import assert from 'node:assert/strict'
import { it } from 'node:test'
import { arithmetic } from './fingerprint.ts'

it('the digest of the sources depends on numbers and not on comments or white space', () => {
  const files = (name: string): string => `/** ${name} */\nexport const x = 1 // one\n`
  const same = arithmetic(files)
  assert.equal(
    arithmetic((name) => `/**\n * other words\n */\nexport  const x = 1 // one\n`.replace('other', name)),
    same,
  )
  assert.notEqual(
    arithmetic((name) => files(name).replace('= 1', '= 2')),
    same,
  )
  assert.match(arithmetic(), /^[0-9a-f]{12}$/)
})
