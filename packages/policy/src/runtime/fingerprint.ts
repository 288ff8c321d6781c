/** What must be the same for the same arithmetic to give the same bits. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { arch, cpus, platform } from 'node:os'
import type { Fingerprint } from '@instar/engine/port'
import type { Backend } from './backend.ts'

/** The sources of the arithmetic that determines an adapter. A digest replaces a version number maintained by hand. */
const SOURCES = [
  'adam',
  'credit',
  'distribution',
  'forward',
  'gradients',
  'initial',
  'lora',
  'loss',
  'model',
  'parameters',
  'random',
  'step',
  'tensors',
  'training',
  'runtime/backend',
  'runtime/decoding',
  'runtime/eager',
  'runtime/onnx-writer',
  'runtime/onnx',
  'runtime/trace-kernels',
  'runtime/trace',
  'runtime/tracer',
  'runtime/wasm-kernels',
  'runtime/wasm',
  'runtime/tfjs-node/backend',
  'runtime/tfjs-node/native',
]

/**
 * Digest of the arithmetic's sources without comments and white space: a change there may change bits, so it is
 * another build.
 */
export function arithmetic(read: (name: string) => string = source): string {
  const hash = createHash('sha256')
  for (const name of SOURCES)
    hash.update(
      `${name}\n${read(name)
        .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
        .replace(/\s+/g, ' ')}\n`,
    )
  return hash.digest('hex').slice(0, 12)
}

const source = (name: string): string => readFileSync(new URL(`../${name}.ts`, import.meta.url), 'utf8')

/** Vector extensions that decide which kernels run, widest first. */
const EXTENSIONS = ['amx_tile', 'avx512_bf16', 'avx512_vnni', 'avx512f', 'avx2', 'avx', 'sve2', 'sve', 'asimd']

/** Architecture and vector extensions; where they cannot be read, the processor's name. */
export function instructionSet(): string {
  if (platform() !== 'linux') return `${platform()}-${arch()} ${cpus()[0]?.model ?? 'unknown'}`
  const line = /^(?:flags|Features)\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? ''
  const flags = new Set(line.trim().split(/\s+/))
  return [`linux-${arch()}`, ...EXTENSIONS.filter((flag) => flags.has(flag))].join(' ')
}

/** `base`: sha256 of the base model. */
export function fingerprintOf(backend: Backend, base: string): Fingerprint {
  const isa = backend.name === 'wasm' ? 'wasm-simd' : instructionSet()
  return {
    engine: backend.name,
    build: `${backend.build}, arithmetic ${arithmetic()}`,
    isa,
    threads: backend.threads,
    base,
  }
}
