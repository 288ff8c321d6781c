import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { pythonOf } from './python.ts'

const folder = mkdtempSync(join(tmpdir(), 'instar-python-'))
after(() => rmSync(folder, { recursive: true, force: true }))

/** A machine whose path has these programs alone, as scripts of the shell. */
const machine = (name: string, programs: Record<string, string>): NodeJS.ProcessEnv => {
  for (const [program, body] of Object.entries(programs)) {
    const file = join(folder, name, program)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, `#!/bin/sh\n${body}\n`, { mode: 0o755 })
  }
  return { PATH: join(folder, name) }
}
const at = (name: string, file: string): string => join(folder, name, file)
/** What a Python with venv answers; one without it fails. */
const python = (minor: number): string => `echo ${minor}`
const WITHOUT_VENV = 'exit 1'
/** pyenv's name of a program that its present version does not have. */
const SHIM = 'echo "pyenv: python3.12: command not found" >&2; exit 127'
const pyenv = (name: string, ...versions: string[]): string =>
  `case "$1" in root) echo ${join(folder, name)} ;; versions) printf '%s\\n' ${versions.join(' ')} ;; esac`

test('python3 is taken where it fits, else the lowest python3.N of the path', () => {
  assert.equal(pythonOf(12, 13, machine('both', { python3: python(13), 'python3.12': python(12) })), 'python3')
  const older = { python3: python(11), 'python3.12': WITHOUT_VENV, 'python3.13': python(13) }
  assert.equal(pythonOf(12, 13, machine('older', older)), 'python3.13')
  assert.equal(pythonOf(11, 13, machine('older', older)), 'python3')
})

test('where python3 is another version, the versions of pyenv are looked at, the lowest that fits first', () => {
  const env = machine('pyenv', {
    python3: python(11),
    'python3.12': SHIM,
    pyenv: pyenv('pyenv', '2.7.18', '3.1.9', '3.11.7', '3.13.0', '3.12.0', '3.12.1', '3.14.0'),
    'versions/3.1.9/bin/python3': python(1),
    'versions/3.12.0/bin/python3': WITHOUT_VENV,
    'versions/3.12.1/bin/python3': python(12),
    'versions/3.13.0/bin/python3': python(13),
  })
  assert.equal(pythonOf(12, 13, env), at('pyenv', 'versions/3.12.1/bin/python3'))
  assert.equal(pythonOf(13, 13, env), at('pyenv', 'versions/3.13.0/bin/python3'))
  assert.equal(pythonOf(14, 15, env), null)
})

test('a Python that uv knows stands before those of pyenv, and uv is not asked to fetch one', () => {
  const programs = {
    python3: python(11),
    uv: `[ "$*" = 'python find --no-python-downloads >=3.12,<3.14' ] && echo ${at('uv', 'own/python3.12')}`,
    'own/python3.12': python(12),
    pyenv: pyenv('uv', '3.12.1'),
    'versions/3.12.1/bin/python3': python(12),
  }
  assert.equal(pythonOf(12, 13, machine('uv', programs)), at('uv', 'own/python3.12'))
})

test('INSTAR_PYTHON stands before all, and one that does not fit is an error', () => {
  const env = machine('named', { python3: python(12), own: python(13), old: python(10) })
  const of = (program: string) => pythonOf(12, 13, { ...env, INSTAR_PYTHON: at('named', program) })
  assert.equal(of('own'), at('named', 'own'))
  assert.throws(() => of('old'), /INSTAR_PYTHON \(.*old\) is not a Python 3\.12 to 3\.13 with venv/)
  assert.throws(() => of('none'), /INSTAR_PYTHON/)
  assert.equal(pythonOf(12, 13, { ...env, INSTAR_PYTHON: '' }), 'python3')
})

test('without any Python there is none', () => {
  mkdirSync(join(folder, 'bare'))
  assert.equal(pythonOf(11, 13, { PATH: join(folder, 'bare') }), null)
})
