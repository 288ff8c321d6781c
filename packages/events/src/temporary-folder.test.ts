import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { makeTemporaryFolder } from './temporary-folder.ts'

const FILE = new URL('temporary-folder.ts', import.meta.url).href

/** The folder for temporary files of this test. */
const emptyParent = (t: TestContext): string => {
  const before = process.env['TMPDIR']
  const parent = mkdtempSync(join(tmpdir(), 'instar-folders-'))
  process.env['TMPDIR'] = parent
  t.after(() => {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
    rmSync(parent, { recursive: true })
  })
  return parent
}

test('a folder of a process that was killed is removed by the next process, and no other one', async (t) => {
  const parent = emptyParent(t)
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
  assert.match(own, new RegExp(`/instar-audit-${process.pid}[.-]`))
  assert.deepEqual(
    [killed, running, other].map(({ path }) => existsSync(path)),
    [false, true, true],
  )
  assert.equal(readdirSync(parent).length, 4)
})

const isTold = existsSync('/proc/self/ns/pid')

test('a folder of a process whose id another one has now is removed', { skip: !isTold }, (t) => {
  emptyParent(t)
  const own = makeTemporaryFolder('audit')
  const [, start] = /\.(\d+)-\w+$/.exec(own)!
  const earlier = own.replace(`.${start}-`, `.${Number(start) - 1}-`)
  mkdirSync(earlier)
  makeTemporaryFolder('audit')
  assert.deepEqual([existsSync(own), existsSync(earlier)], [true, false])
})

test(
  'a folder stays whose process counts ids elsewhere, as in another container, or whose place is not told',
  { skip: !isTold },
  async (t) => {
    const parent = emptyParent(t)
    const ended = spawn(process.execPath, ['--version'])
    await once(ended, 'exit')
    const [, place, start] = /\.(\w+)\.(\d+)-\w+$/.exec(makeTemporaryFolder('audit'))!
    const names = {
      elsewhere: `instar-audit-${ended.pid}.${'0'.repeat(place!.length)}.${start}-abcdef`,
      untold: `instar-audit-${ended.pid}-abcdef`,
      here: `instar-audit-${ended.pid}.${place}.${start}-abcdef`,
    }
    for (const name of Object.values(names)) mkdirSync(join(parent, name))
    const target = mkdtempSync(join(parent, 'target-'))
    writeFileSync(join(target, 'kept'), 'x')
    symlinkSync(target, join(parent, `${names.here}2`))
    makeTemporaryFolder('audit')
    const left = readdirSync(parent)
    assert.deepEqual(
      Object.values(names).map((name) => left.includes(name)),
      [true, true, false],
    )
    assert.ok(left.includes(`${names.here}2`) && readdirSync(join(parent, basename(target))).length === 1)
  },
)
