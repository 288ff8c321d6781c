/** The fingerprint of an engine: equal inputs on engines with equal fingerprints give equal bits. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { arch, cpus, platform } from 'node:os'
import type { Fingerprint } from '@instar/engine/port'
import type { Backend } from './backend.ts'

/** The sources that determine the numbers of an adapter. Their digest replaces a version number maintained by hand. */
export const SOURCES: readonly string[] = [
  'adam',
  'checkpoints/bad-checkpoint',
  'checkpoints/float16',
  'checkpoints/peft',
  'checkpoints/safetensors',
  'distribution',
  'divergence',
  'forward',
  'gradients',
  'initial',
  'lora',
  'loss',
  'model',
  'parameters',
  'passed-tokens',
  'person-share',
  'pretraining',
  'random',
  'references',
  'rehearsal',
  'sampled-loss',
  'sampled-step',
  'shared-prefix',
  'step',
  'step-check',
  'tensors',
  'token-weights',
  'training',
  'trust-region',
  'weights',
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
 * A digest of `SOURCES`: 12 hexadecimal digits of sha256. Block comments, lines that are comments, and the length of
 * white space do not count; comments at the end of a line of code, names and texts do. `read`: the text of a source.
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

/** Vector extensions by which libraries select kernels, widest first. */
const EXTENSIONS = ['amx_tile', 'avx512_bf16', 'avx512_vnni', 'avx512f', 'avx2', 'avx', 'sve2', 'sve', 'asimd']

/** Architecture and vector extensions; on systems other than Linux, the name of the processor. */
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
