import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

test('a script knows that it was started, by Node and by bootstrap.cjs, which npm run uses; an imported one that it was not', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'main-'))
  try {
    const script = path.join(folder, 'script.ts')
    const imported = path.join(folder, 'imported.ts')
    const asks = (name: string): string =>
      `import { isMain } from ${JSON.stringify(here('./main.ts'))}\nif (isMain(import.meta.url)) console.log('${name}')\n`
    writeFileSync(imported, asks('imported'))
    writeFileSync(script, `import './imported.ts'\n${asks('script')}`)
    for (const args of [[script], [here('../../../bootstrap.cjs'), script]])
      assert.equal(execFileSync(process.execPath, args, { encoding: 'utf8' }), 'script\n', args.join(' '))
  } finally {
    rmSync(folder, { recursive: true })
  }
})
