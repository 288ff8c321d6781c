/** Selects the arithmetic backend and holds one base model with its decode program. */
import { InstarError } from '@instar/events/errors'
import type { Lora } from '../checkpoints/peft.ts'
import { frozenConstants, packedConstants } from '../parameters.ts'
import type { Fingerprint } from '@instar/engine/port'
import type { ModelConfig, Weights } from '../weights.ts'
import type { Backend, TensorData } from './backend.ts'
import { KvCache } from './cache.ts'
import { Decoder } from './decoding.ts'
import type { DecodeRequest, DecodeResult } from './decoding.ts'
import type { EngineChoice } from './engines.ts'
import { fingerprintOf } from './fingerprint.ts'

type RuntimeOptions = {
  config: ModelConfig
  weights: Weights
  /** sha256 of the base model. */
  base: string
  engine?: EngineChoice
  threads?: number
}

/** Concurrent calls are executed one after another, in the order of the calls. */
export interface Runtime {
  readonly config: ModelConfig
  /** One line that names the engine and the reason for its choice. */
  readonly choice: string
  fingerprint(): Fingerprint
  /** A KV cache of `rows` empty rows with a capacity of at least `positions` each (cache.ts). */
  createCache(rows?: number, positions?: number): KvCache
  /** Sets or clears (null) the adapter of a slot for the decode steps that are called later. */
  setAdapterSlot(slot: number, adapter: Lora | null): void
  /** Processes `ids` after the cached positions, appends them to the cache and returns logits. */
  decodeStep(request: DecodeRequest): Promise<DecodeResult>
  readonly backend: Backend
  /** The frozen base weights, as constants for other programs on this backend. */
  readonly constants: ReadonlyMap<string, TensorData>
  close(): Promise<void>
}

/**
 * Loads the named engine; for `auto`, onnx or, if it does not load, wasm. Throws `engine_lost` or `engine_not_built` if
 * the named engine does not load.
 */
export async function openBackend(
  engine: EngineChoice,
  threads: number,
): Promise<{ backend: Backend; choice: string }> {
  const onnx = async (): Promise<Backend> => (await import('./onnx.ts')).createOnnxBackend({ threads })
  const wasm = async (): Promise<Backend> => (await import('./wasm.ts')).createWasmBackend()
  const tfjsNode = async (): Promise<Backend> =>
    (await import('./tfjs-node/backend.ts')).createTfjsNodeBackend({ threads })
  const describe = (backend: Backend, why: string): string =>
    `engine ${backend.name} (${backend.build}, ${backend.threads} thread${backend.threads === 1 ? '' : 's'}): ${why}`
  if (engine !== 'auto') {
    try {
      const backend = await { onnx, wasm, 'tfjs-node': tfjsNode }[engine]()
      return { backend, choice: describe(backend, 'as configured') }
    } catch (error) {
      if (error instanceof InstarError) throw error
      throw new InstarError(
        'engine_lost',
        `the configured engine ${engine} does not load on this machine: ${String(error)}`,
        { engine },
        { cause: error },
      )
    }
  }
  try {
    const backend = await onnx()
    return { backend, choice: describe(backend, 'the fastest engine that loads on this machine') }
  } catch (error) {
    const backend = await wasm()
    const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    return { backend, choice: describe(backend, `onnxruntime-node does not load on this machine (${reason})`) }
  }
}

export async function createRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { config } = options
  const { backend, choice } = await openBackend(options.engine ?? 'auto', options.threads ?? 1)
  const constants = frozenConstants(config, options.weights)
  const slots: (Lora | null)[] = []
  let decoder: Decoder | null = null
  let last: Promise<unknown> = Promise.resolve()
  const inOrder = <T>(work: () => T | Promise<T>): Promise<T> => {
    const result = last.then(work)
    last = result.catch(() => undefined)
    return result
  }
  return {
    config,
    choice,
    backend,
    constants,
    fingerprint: () => fingerprintOf(backend, options.base),
    createCache: (rows = 0, positions = 0) => new KvCache(config, rows, positions),
    setAdapterSlot(slot, adapter) {
      void inOrder(() => {
        while (slots.length <= slot) slots.push(null)
        slots[slot] = adapter
        decoder?.setAdapterSlot(slot, adapter)
      })
    },
    decodeStep(request) {
      return inOrder(async () => {
        if (!decoder) {
          decoder = await Decoder.create(backend, config, constants, packedConstants(config, options.weights))
          for (const [slot, adapter] of slots.entries()) decoder.setAdapterSlot(slot, adapter)
        }
        return decoder.step(request)
      })
    },
    async close() {
      await last
      await backend.dispose()
    },
  }
}
