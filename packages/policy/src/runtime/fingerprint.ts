/** What must be the same for the same arithmetic to give the same bits. */
import { readFileSync } from 'node:fs'
import { arch, cpus, platform } from 'node:os'
import type { Fingerprint } from '../port.ts'
import type { Backend } from './backend.ts'

/** Counts up when the decoder, the loss or the step changes what it computes. */
const ARITHMETIC = 1

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
  return { engine: backend.name, build: `${backend.build}, arithmetic ${ARITHMETIC}`, isa, threads: backend.threads, base }
}
