/** `npm run engine:tfjs-node` where a part is missing: what it says, and that it changes nothing. No network is used. */
import { afterEach, beforeEach, describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InstarError } from '@instar/events/errors'
import { fetchPart, isWhole } from './fetch.ts'
import { build, download, type BuildPorts } from './build.ts'
import type { Program } from './programs.ts'
import { partsOf } from '../core/parts.ts'
import { builtOf, findBuilt, LAYOUT } from '../../place.ts'

const MAIN = fileURLToPath(import.meta.resolve('@instar/policy/runtime/tfjs-node/build/main'))

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

/** A program that does what the line of shell says. */
const program = (name: string, line: string): string => {
  const file = join(programs, name)
  writeFileSync(file, `#!/bin/sh\n${line}\n`)
  chmodSync(file, 0o755)
  return file
}

/** The command, with no programs but those made here. */
async function command(...words: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [MAIN, ...words], {
    env: { PATH: programs },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said.err += text
  })
  const code = await new Promise<number | null>((resolve) => {
    child.once('close', resolve)
  })
  return { code, ...said }
}

const world = (machine = 'linux-x64'): BuildPorts => ({
  folder: join(folder, 'engines'),
  machine,
  say: () => undefined,
  terminal: false,
})
const refused =
  (pattern: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof InstarError && error.code === 'engine_build_failed', String(error))
    assert.match(error.message, pattern)
    return true
  }
const wanted = { kind: 'cpu', force: false, wheels: null } as const

describe('engine:tfjs-node', { skip: process.platform === 'win32' }, () => {
  test('--help prints the requirements, and an unknown option is refused', async () => {
    const { code, out } = await command('--help')
    assert.equal(code, 0)
    assert.match(out, /--gpu[\s\S]*--download FOLDER[\s\S]*--wheels FOLDER[\s\S]*Linux on x64, g\+\+/)
    const other = await command('--cuda')
    assert.equal(other.code, 1)
    assert.match(other.err, /--cuda is not an option/)
  })

  test(
    'a missing compiler, Python, pip or npm is named with what to do, and nothing is changed',
    { skip: process.platform !== 'linux' || process.arch !== 'x64' },
    async () => {
      const before = builtOf('cpu')
      const fails = async (pattern: RegExp): Promise<void> => {
        const { code, out, err } = await command('--force')
        assert.deepEqual([code, out], [1, ''])
        assert.match(err, pattern)
        assert.ok(err.startsWith('instar: ') && !err.includes('    at '), err)
      }
      await fails(/no C\+\+ compiler.*Install g\+\+/)
      program('g++', 'exit 0')
      await fails(/no Python.*apt-get install python3 python3-pip/)
      program('python3', 'case "$*" in *pip*) exit 1;; esac; exit 0')
      await fails(/python3 has no pip.*--wheels FOLDER/)
      program('python3', 'exit 0')
      await fails(/npm was not found/)
      assert.deepEqual(builtOf('cpu'), before)
    },
  )

  test('a platform other than Linux x64 is refused with the engines that it has', async () => {
    await assert.rejects(
      build(world('darwin-arm64'), wanted),
      refused(/Linux x64 only \(this is darwin-arm64\).*onnx and wasm/),
    )
    assert.equal(existsSync(join(folder, 'engines')), false)
  })

  test('a folder with missing files lists them', async () => {
    const wheels = join(folder, 'wheels')
    mkdirSync(wheels)
    const [first] = partsOf('cpu')
    writeFileSync(join(wheels, first?.file ?? ''), 'not it')
    await assert.rejects(
      build({ ...world(), compiler: program('g++', 'exit 0') }, { ...wanted, wheels }),
      (error: unknown) => {
        refused(/bytes are others/)(error)
        for (const { file } of partsOf('cpu')) assert.ok((error as Error).message.includes(file), file)
        return true
      },
    )
    assert.equal(existsSync(join(folder, 'engines')), false)
  })

  test('a registry that does not answer or sends other bytes is an error', async () => {
    const [part] = partsOf('cpu')
    assert.ok(part)
    const client = (line: string): Program => ({ file: program('npm', line), args: [] })
    const fetched = (npm: Program): Promise<string> => fetchPart(part, folder, { python: npm, npm }, false)
    await assert.rejects(
      fetched(client('echo getaddrinfo ENOTFOUND; exit 1')),
      refused(/could not be fetched[\s\S]*ENOTFOUND[\s\S]*--download FOLDER/),
    )
    await assert.rejects(fetched(client('echo other > other.tgz')), refused(/not the file that this build knows/))
    assert.deepEqual(readdirSync(folder), ['programs'])
  })

  test('complete downloads are not fetched again', async () => {
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
    assert.equal(await isWhole(join(folder, part.file), part), true)
    const never: Program = { file: program('npm', 'exit 1'), args: [] }
    assert.equal(await fetchPart(part, folder, { python: never, npm: never }, false), join(folder, part.file))
  })

  test('a full disk gives an error with the space needed', async () => {
    const small = { ...world(), folder: '/dev/shm/instar-engine-nowhere', freeMegabytes: () => 12 }
    await assert.rejects(download(small, 'gpu', small.folder), refused(/12 MB free, and \d{4} MB are needed/))
    assert.equal(existsSync(small.folder), false)
  })

  test('an incomplete build is not found, and of two complete ones that for GPUs is used', () => {
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
