/**
 * `npm run engine:tfjs-node` where a requirement is missing: its messages, and that it changes nothing. Without
 * network.
 */
import { afterEach, beforeEach, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InstarError } from '@instar/events/errors'
import { fetchPart, isIntact } from './fetch.ts'
import { build, download, type BuildPorts } from './build.ts'
import type { Program } from './programs.ts'
import { partsOf } from '../core/parts.ts'
import { builtOf, findBuilt, LAYOUT } from '../../build-folder.ts'

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url))

let folder: string
let programs: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'instar-engine-'))
  programs = join(folder, 'programs')
  mkdirSync(programs)
})
afterEach(() => {
  rmSync(folder, { recursive: true })
})

/** A shell script with one line. */
const program = (name: string, line: string): string => {
  const file = join(programs, name)
  writeFileSync(file, `#!/bin/sh\n${line}\n`)
  chmodSync(file, 0o755)
  return file
}

/** Runs the command with a PATH that contains only the programs of this test. */
async function command(...words: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [MAIN, ...words], {
    env: { PATH: programs },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output.err += text
  })
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve)
  })
  return { code, ...output }
}

const ports = (machine = 'linux-x64'): BuildPorts => ({
  folder: join(folder, 'engines'),
  machine,
  print: () => undefined,
  terminal: false,
})
const refused =
  (pattern: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof InstarError && error.code === 'engine_build_failed', String(error))
    assert.match(error.message, pattern)
    return true
  }
const request = { kind: 'cpu', force: false, wheels: null } as const

describe('engine:tfjs-node', { skip: process.platform === 'win32' }, () => {
  test('--help lists the options and requirements; an unknown option is refused', async () => {
    const { code, out } = await command('--help')
    assert.equal(code, 0)
    assert.match(out, /--gpu[\s\S]*--download FOLDER[\s\S]*--wheels FOLDER[\s\S]*Linux on x64, g\+\+/)
    const other = await command('--cuda')
    assert.equal(other.code, 1)
    assert.match(other.err, /--cuda is not an option/)
  })

  test(
    'a missing compiler, Python, pip or npm is named with the command that installs it, and no build is changed',
    { skip: process.platform !== 'linux' || process.arch !== 'x64' },
    async () => {
      const before = builtOf('cpu')
      const fails = async (pattern: RegExp): Promise<void> => {
        const { code, out, err } = await command('--force')
        assert.deepEqual([code, out], [1, ''])
        assert.match(err, pattern)
        assert.ok(err.startsWith('instar: ') && !err.includes('    at '), err)
      }
      await fails(/No C\+\+ compiler.*Install g\+\+/)
      program('g++', 'exit 0')
      await fails(/No Python.*apt-get install python3 python3-pip/)
      program('python3', 'case "$*" in *pip*) exit 1;; esac; exit 0')
      await fails(/python3 has no pip.*--wheels FOLDER/)
      program('python3', 'exit 0')
      await fails(/npm, .* was not found/)
      assert.deepEqual(builtOf('cpu'), before)
    },
  )

  test('the build fails on other machines than Linux x64; the message names the engines that run there', async () => {
    await assert.rejects(
      build(ports('darwin-arm64'), request),
      refused(/Linux x64 only; this machine is darwin-arm64.*onnx or wasm/),
    )
    assert.equal(existsSync(join(folder, 'engines')), false)
  })

  test('the error for a --wheels folder lists missing and altered files by name', async () => {
    const wheels = join(folder, 'wheels')
    mkdirSync(wheels)
    const [first] = partsOf('cpu')
    writeFileSync(join(wheels, first?.file ?? ''), 'not it')
    await assert.rejects(
      build({ ...ports(), compiler: program('g++', 'exit 0') }, { ...request, wheels }),
      (error: unknown) => {
        refused(/its digest differs/)(error)
        for (const { file } of partsOf('cpu')) assert.ok((error as Error).message.includes(file), file)
        return true
      },
    )
    assert.equal(existsSync(join(folder, 'engines')), false)
  })

  test('the build fails if a client fetches nothing, and if it fetches a file with another digest', async () => {
    const [part] = partsOf('cpu')
    assert.ok(part)
    const client = (line: string): Program => ({ file: program('npm', line), args: [] })
    const fetched = (npm: Program): Promise<string> => fetchPart(part, folder, { python: npm, npm }, false)
    await assert.rejects(
      fetched(client('echo getaddrinfo ENOTFOUND; exit 1')),
      refused(/could not fetch[\s\S]*ENOTFOUND[\s\S]*--download FOLDER/),
    )
    await assert.rejects(fetched(client('echo other > other.tgz')), refused(/expected .* with digest/))
    assert.deepEqual(readdirSync(folder), ['programs'])
  })

  test('a file with the right digest is not fetched again', async () => {
    const bytes = 'whole'
    const part = {
      name: 'p',
      version: '1',
      file: 'p-1.tgz',
      from: 'npm',
      digest: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
      megabytes: 1,
    } as const
    writeFileSync(join(folder, part.file), bytes)
    assert.equal(await isIntact(join(folder, part.file), part), true)
    const never: Program = { file: program('npm', 'exit 1'), args: [] }
    assert.equal(await fetchPart(part, folder, { python: never, npm: never }, false), join(folder, part.file))
  })

  test('the error for a full disk says how much space is free and how much the build needs', async () => {
    const small = { ...ports(), folder: '/dev/shm/instar-engine-nowhere', freeMegabytes: () => 12 }
    await assert.rejects(download(small, 'gpu', small.folder), refused(/needs \d{4} MB in .* has 12 MB free/))
    assert.equal(existsSync(small.folder), false)
  })

  test('an incomplete build is ignored; of two complete builds the one for GPUs is used', () => {
    const engines = join(folder, 'engines')
    const place = (kind: string, paths: string[]): void => {
      for (const path of paths) {
        mkdirSync(join(engines, kind, path, '..'), { recursive: true })
        writeFileSync(
          join(engines, kind, path),
          path === LAYOUT.manifest ? JSON.stringify({ kind, recipe: 'r', tensorflow: '2', package: '4' }) : '',
        )
      }
    }
    assert.equal(findBuilt(engines), null)
    place('cpu', [LAYOUT.binding, LAYOUT.environment])
    assert.equal(findBuilt(engines), null)
    place('cpu', [LAYOUT.manifest])
    assert.deepEqual(findBuilt(engines), {
      kind: 'cpu',
      recipe: 'r',
      tensorflow: '2',
      package: '4',
      folder: join(engines, 'cpu'),
    })
    place('gpu', [LAYOUT.manifest, LAYOUT.binding, LAYOUT.environment])
    assert.equal(findBuilt(engines)?.kind, 'gpu')
  })
})
