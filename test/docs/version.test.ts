import { deepEqual, match } from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { VERSION } from '@instar/process'
import { ROOT } from '../../tools/tree.ts'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

test('package.json, the lockfile, the newest entry of CHANGELOG.md and the code have one version', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  const lock = JSON.parse(read('package-lock.json')) as {
    version: string
    packages: Record<string, { version: string }>
  }
  const newest = /^## \[(\d.*?)\] - \d{4}-\d\d-\d\d$/m.exec(read('CHANGELOG.md'))?.[1]
  deepEqual([lock.version, lock.packages['']!.version, newest, VERSION], Array(4).fill(version))
  match(read('README.md'), new RegExp(`/instar-${version.replaceAll('.', '\\.')}\\.tgz`))
})

test('LICENSE is the Apache License 2.0, package.json names it, and NOTICE names the shipped weights', () => {
  match(read('LICENSE'), /^\s+Apache License\n\s+Version 2\.0, January 2004\n[\s\S]*END OF TERMS AND CONDITIONS/)
  const { license } = JSON.parse(read('package.json')) as { license: string }
  deepEqual(license, 'Apache-2.0')
  match(read('NOTICE'), /^models\/tiny /m)
})
