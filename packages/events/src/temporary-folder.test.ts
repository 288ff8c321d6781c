import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { makeTemporaryFolder } from './temporary-folder.ts'

const FILE = new URL('temporary-folder.ts', import.meta.url).href

test('a folder of a process that was killed is removed by the next process, and no other one', async (t) => {
  const before = process.env['TMPDIR']
  const parent = mkdtempSync(join(tmpdir(), 'instar-folders-'))
  process.env['TMPDIR'] = parent
  t.after(() => {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    rmSync(parent, { recursive: true })
  })
  const made = async (kind: string): Promise<{ child: ChildProcess; path: string }> => {
    const script = `import { makeTemporaryFolder } from ${JSON.stringify(FILE)}
      console.log(makeTemporaryFolder(${JSON.stringify(kind)}))
      setInterval(() => undefined, 1000)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => child.kill('SIGKILL'))
    return { child, path: String((await once(child.stdout, 'data'))[0]).trim() }
  }
  const [killed, running, other] = [await made('audit'), await made('audit'), await made('doctor')]
  writeFileSync(join(killed.path, 'what people said'), 'x')
  writeFileSync(join(parent, 'instar-audit-1-file'), 'x')
  for (const { child } of [killed, other]) {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const own = makeTemporaryFolder('audit')
  assert.match(own, new RegExp(`/instar-audit-${process.pid}-`))
  assert.deepEqual(
    [killed, running, other].map(({ path }) => existsSync(path)),
    [false, true, true],
  )
  assert.equal(readdirSync(parent).length, 4)
})
