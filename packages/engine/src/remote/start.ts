/** Starts the remote engine that INSTAR_ENGINE names: probes its replicas and waits for the first one that answers. */
import { InstarError } from '@instar/events'
import type { Adapter, Model } from '../port.ts'
import { setTimeout as delay } from 'node:timers/promises'
import { engineAddress } from '../protocols/address.ts'
import { fittingDefaults, sameBase, type LogprobsByToken } from '../protocols/exactness.ts'
import { PROTOCOLS } from '../protocols/table.ts'
import type { Protocol } from '../protocols/wire.ts'
import { AdapterFiles } from './adapter-files.ts'
import { RemoteEngine, type RetryPolicy } from './engine.ts'
import { EngineFault, EngineHttp, type Timeouts } from './http.ts'
import type { ReplicaInfo } from './probe.ts'
import { Replica } from './replica.ts'
import { UNKNOWN_CONTEXT } from './text-model.ts'

export type RemoteOptions = {
  /** INSTAR_ENGINE. */
  engine: string
  /** Tokenizer and chat template of the model that the engine serves. */
  model: Model
  /** Folder for adapters; the engines read it under the same path. */
  adapters: string
  /** Whether an adapter changes nothing, so that the engine's log-probs under it are those of the base model. */
  isNeutral: (adapter: Adapter) => boolean
  key?: string | null
  /** Name of the base model at the engine; default: the first that it lists. */
  named?: string | null
  /** Content besides text that a chat engine accepts: INSTAR_ENGINE_ACCEPTS. */
  accepts?: readonly ('images' | 'files')[]
  timeouts?: Partial<Timeouts>
  patience?: Partial<RetryPolicy>
  /** How long to wait for the first replica. */
  startMs?: number
  say?: (line: string) => void
  signal?: AbortSignal
}

/**
 * `model`: with the engine's own context length, and sampling defaults under which its log-probs are exact. `line`: a
 * summary for the log. `adapterFault`: why no version but the base model can be served; null if others can.
 */
export type Remote = { engine: RemoteEngine; model: Model; line: string; adapterFault: string | null }

const TIMEOUTS: Timeouts = { connectMs: 5000, firstByteMs: 300_000, idleMs: 60_000 }
const PATIENCE: RetryPolicy = { waitMs: 30_000, rounds: 3, roundMs: 100 }
const START_MS = 15 * 60_000
const RETRY_MS = 1000
const NO_LOGPROBS: LogprobsByToken = new Map()

/** Throws `engine_mismatch` if the engine serves another model, `engine_lost` if no replica answers within `startMs`. */
export const startRemote = async (options: RemoteOptions): Promise<Remote> => {
  const { model, say = () => undefined, signal } = options
  const { kind, urls } = engineAddress(options.engine)
  const protocol = PROTOCOLS[kind]
  const timeouts = { ...TIMEOUTS, ...options.timeouts }
  let first: ReplicaInfo | null = null
  const assertSameModel = (info: ReplicaInfo): void => {
    first ??= info
    if (first.model !== info.model || !sameBase(first.base?.first ?? NO_LOGPROBS, info.base?.first ?? NO_LOGPROBS)) {
      throw new InstarError(
        'engine_mismatch',
        `The replicas of INSTAR_ENGINE do not serve one model: ${first.model} and ${info.model}, or other weights under the same name.`,
        { field: 'INSTAR_ENGINE' },
      )
    }
  }
  const replicas: Replica[] = urls.map(
    (url): Replica =>
      new Replica({
        http: new EngineHttp(url, options.key ?? null, timeouts),
        protocol,
        model,
        named: options.named ?? null,
        wanted: () => engine.wanted.values(),
        assertSameModel,
        changed: () => engine.changed(),
        say,
      }),
  )
  const engine: RemoteEngine = new RemoteEngine({
    protocol,
    model,
    replicas,
    files: new AdapterFiles(options.adapters),
    isNeutral: options.isNeutral,
    patience: { ...PATIENCE, ...options.patience },
    accepts: options.accepts ?? [],
    say,
  })
  try {
    await open(replicas, options.startMs ?? START_MS, say, signal)
  } catch (error) {
    await engine.close()
    throw error
  }
  const { contextLength } = engine.capabilities()
  const info = replicas.flatMap((replica) => replica.info ?? [])
  const defaults = protocol.ids
    ? info.reduce((fitting, { logprobs }) => fittingDefaults(logprobs, fitting), model.defaults)
    : model.defaults
  return {
    engine,
    model: { ...model, contextLength, defaults },
    line: lineOf(protocol, replicas, contextLength),
    adapterFault: info[0]?.adapterFault ?? null,
  }
}

/** Resolves when the first replica is up; the others are reopened in the background. */
const open = async (
  replicas: readonly Replica[],
  ms: number,
  say: (line: string) => void,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const until = performance.now() + ms
  for (let round = 0; ; round += 1) {
    const outcomes = await Promise.allSettled(replicas.map((replica) => replica.open()))
    const faults = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as Error] : []))
    const never = faults.find((fault) => !(fault instanceof EngineFault))
    if (never) throw never
    if (faults.length < replicas.length) break
    if (round === 0) say(`waiting for the engine: ${faults[0]!.message}`)
    if (performance.now() > until)
      throw new InstarError('engine_lost', `No engine answered: ${faults[0]!.message}.`, { field: 'INSTAR_ENGINE' })
    await delay(RETRY_MS, undefined, signal ? { signal } : {}).catch(() => undefined)
    if (signal?.aborted) throw new InstarError('aborted', 'The start was given up.')
  }
  for (const replica of replicas) if (!replica.up()) replica.reopen()
}

const lineOf = ({ kind, ids }: Protocol, replicas: readonly Replica[], contextLength: number): string => {
  const info = replicas.flatMap((replica) => replica.info ?? [])
  const [one] = info
  if (!one) return kind
  const { temperature, filters } = one.logprobs
  const logprobs =
    temperature && filters
      ? 'log-probs as drawn'
      : temperature
        ? 'log-probs as drawn without top_p and top_k'
        : 'log-probs as drawn at temperature 1 without top_p and top_k, other turns are captured only'
  const can = ids ? `token ids, ${logprobs}` : 'text only: turns are captured, none is trained on'
  return `${kind} ${one.version} (${one.model}), ${info.length} of ${replicas.length} ${replicas.length === 1 ? 'server' : 'replicas'}: ${can}; adapters ${one.adapterFault === null ? 'loaded as versions come' : `not loaded: ${one.adapterFault}`}; ${contextLength < UNKNOWN_CONTEXT ? `context ${contextLength} tokens` : 'it does not tell its context'}`
}
