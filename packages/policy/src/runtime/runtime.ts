/** The one door to the arithmetic: picks what runs it, and holds one base model with its decode program. */
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

export type RuntimeOptions = {
  config: ModelConfig
  weights: Weights
  /** sha256 of the base model. */
  base: string
  engine?: EngineChoice
  threads?: number
}

/** Calls may overlap; they take effect one after another, in their order. */
export interface Runtime {
  readonly config: ModelConfig
  /** One line for the start: which engine, and why. */
  readonly choice: string
  fingerprint(): Fingerprint
  /** Room for rows of a decode batch; see cache.ts for joining, leaving, copying and rewinding rows. */
  createCache(rows?: number, positions?: number): KvCache
  /** Puts an adapter (or nothing) into a slot, for the steps that are called after this. */
  setAdapterSlot(slot: number, adapter: Lora | null): void
  /** Reads `ids` after what the cache holds, extends the cache, returns logits. */
  decodeStep(request: DecodeRequest): Promise<DecodeResult>
  readonly backend: Backend
  /** The frozen base weights as constants for further programs. */
  readonly constants: ReadonlyMap<string, TensorData>
  close(): Promise<void>
}

/** Picks an engine: the forced one or, for `auto`, onnx where it loads and else wasm. */
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
      return { backend, choice: describe(backend, 'as asked') }
    } catch (error) {
      if (error instanceof InstarError) throw error
      throw new InstarError(
        'engine_lost',
        `the engine ${engine} was asked for and does not load here: ${String(error)}`,
        { engine },
        { cause: error },
      )
    }
  }
  try {
    const backend = await onnx()
    return { backend, choice: describe(backend, 'the fastest that loads here') }
  } catch (error) {
    const backend = await wasm()
    const reason = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
    return { backend, choice: describe(backend, `onnxruntime-node does not load here (${reason})`) }
  }
}

export async function createRuntime(options: RuntimeOptions): Promise<Runtime> {
  const { config } = options
  const { backend, choice } = await openBackend(options.engine ?? 'auto', options.threads ?? 1)
  const constants = frozenConstants(config, options.weights)
  const slots: (Lora | null)[] = []
  let decoder: Decoder | null = null
  let last: Promise<unknown> = Promise.resolve()
  /** Steps and changes of slots take effect in the order of the calls. */
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
