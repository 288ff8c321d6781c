/** Opens the remote engine of INSTAR_ENGINE: probes its replicas and waits until the first one is up. */
import { InstarError } from '@instar/events'
import type { Adapter, Model } from '../port.ts'
import { setTimeout as delay } from 'node:timers/promises'
import { engineAddress } from '../protocols/address.ts'
import { exactDefaults, sameBase, type LogprobsByToken, type LogprobSteps } from '../protocols/exactness.ts'
import { PROTOCOLS } from '../protocols/table.ts'
import { adapterName, type Protocol } from '../protocols/wire.ts'
import { AdapterFiles } from './adapter-files.ts'
import { RemoteEngine } from './engine.ts'
import type { RetryPolicy } from './fleet.ts'
import { EngineHttp, type Timeouts } from './http.ts'
import type { ReplicaInfo } from './probe.ts'
import { Replica } from './replica.ts'
import { UNKNOWN_CONTEXT } from './text-model.ts'

export type RemoteOptions = {
  /** INSTAR_ENGINE. */
  engine: string
  /** Tokenizer and chat template of the model that the engine serves. */
  model: Model
  /** Folder for adapters; the engines must see it under the same path. */
  adapters: string
  /** Whether the log-probs under an adapter equal those of the base model; such an adapter is not compared with it. */
  isNeutral: (adapter: Adapter) => boolean
  /** Sent as a bearer token: INSTAR_ENGINE_KEY. */
  key?: string | null
  /** The name of the base model at the engine, INSTAR_ENGINE_MODEL; default: the first that it lists. */
  servedName?: string | null
  /** Content besides text that a chat engine accepts: INSTAR_ENGINE_ACCEPTS. */
  accepts?: readonly ('images' | 'files')[]
  /** Names and files of adapters; default: those of served versions. */
  adapterNames?: (sha256: string) => string
  files?: Pick<AdapterFiles, 'write' | 'prune'>
  timeouts?: Partial<Timeouts>
  retry?: Partial<RetryPolicy>
  /** How long to wait for the first replica, in milliseconds; default: 15 minutes. */
  startMs?: number
  /** How long to wait for the other replicas once the first one is up, in milliseconds; default: 10 seconds. */
  othersMs?: number
  logLine?: (line: string) => void
  signal?: AbortSignal
}

/**
 * `model`: with the engine's context length, and with sampling defaults for which its log-probs are exact. `line`: a
 * summary for the log. `adapterFault`: the reason why the engine serves only the base model; null if it loads adapters.
 * `logprobs`: the sampling steps that the log-probs of all replicas include.
 */
export type Remote = {
  engine: RemoteEngine
  model: Model
  line: string
  adapterFault: string | null
  logprobs: LogprobSteps
}

/** `jsonMs`: an adapter from a slow disk takes long to load. */
const TIMEOUTS: Timeouts = { connectMs: 5000, firstByteMs: 300_000, idleMs: 60_000, jsonMs: 120_000 }
const RETRY_POLICY: RetryPolicy = { waitMs: 30_000, rounds: 3, roundMs: 100 }
const START_MS = 15 * 60_000
/** Long enough for the probe of a server that answers, so that a fleet with two models is refused at the start. */
const OTHERS_MS = 10_000
const RETRY_MS = 1000
const NO_LOGPROBS: LogprobsByToken = new Map()

/**
 * Throws `engine_mismatch` if the engine serves another model, `engine_lost` if no replica answers within `startMs`,
 * and `aborted` by `signal`.
 */
export const startRemote = async (options: RemoteOptions): Promise<Remote> => {
  const { model, logLine = () => undefined, signal } = options
  const { kind, urls } = engineAddress(options.engine)
  const protocol = PROTOCOLS[kind]
  const timeouts = { ...TIMEOUTS, ...options.timeouts }
  let first: ReplicaInfo | null = null
  const assertSameModel = (info: ReplicaInfo): void => {
    first ??= info
    if (first.model !== info.model || !sameBase(first.base?.first ?? NO_LOGPROBS, info.base?.first ?? NO_LOGPROBS)) {
      throw new InstarError(
        'engine_mismatch',
        `The replicas of INSTAR_ENGINE do not serve one model: they serve ${first.model} and ${info.model}, or other weights under the same name.`,
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
        nameFor: options.adapterNames ?? adapterName,
        servedName: options.servedName ?? null,
        adapters: () => engine.fleet.adapters.values(),
        assertSameModel,
        changed: () => engine.changed(),
        logLine,
      }),
  )
  const engine: RemoteEngine = new RemoteEngine({
    protocol,
    model,
    replicas,
    files: options.files ?? new AdapterFiles(options.adapters),
    isNeutral: options.isNeutral,
    retry: { ...RETRY_POLICY, ...options.retry },
    accepts: options.accepts ?? [],
    logLine,
  })
  try {
    await open(replicas, { ms: options.startMs ?? START_MS, othersMs: options.othersMs ?? OTHERS_MS, logLine, signal })
  } catch (error) {
    await engine.close()
    throw error
  }
  const { contextLength } = engine.capabilities()
  const info = replicas.flatMap((replica) => replica.info ?? [])
  const defaults = protocol.ids
    ? info.reduce((defaults, { logprobs }) => exactDefaults(logprobs, defaults), model.defaults)
    : model.defaults
  return {
    engine,
    model: { ...model, contextLength, defaults },
    line: lineOf(protocol, replicas, contextLength),
    adapterFault: info[0]?.adapterFault ?? null,
    logprobs: {
      temperature: info.every(({ logprobs }) => logprobs.temperature),
      filters: info.every(({ logprobs }) => logprobs.filters),
    },
  }
}

type OpenOptions = {
  ms: number
  othersMs: number
  logLine: (line: string) => void
  signal: AbortSignal | undefined
}

/**
 * Resolves when a replica is up and the others are too, have failed, or have had `othersMs` more; those are opened in
 * the background. Throws if a replica is refused before that, or if none is up after `ms`.
 */
const open = async (replicas: readonly Replica[], { ms, othersMs, logLine, signal }: OpenOptions): Promise<void> => {
  const until = performance.now() + ms
  const opening = new Map<Replica, Promise<void>>()
  const last: { fault: Error | null } = { fault: null }
  const start = async (replica: Replica): Promise<void> => {
    try {
      await replica.open()
    } catch (error) {
      if (!(last.fault instanceof InstarError)) last.fault = error as Error
    } finally {
      opening.delete(replica)
    }
  }
  const isUp = (): boolean => replicas.some((replica) => replica.up())
  for (let round = 0; ; round += 1) {
    for (const replica of replicas) if (!opening.has(replica)) opening.set(replica, start(replica))
    await Promise.race(opening.values())
    const late = performance.now() > until
    if (isUp() || late) {
      const others = Promise.all(opening.values())
      await (isUp() ? Promise.race([others, delay(othersMs, undefined, { ref: false })]) : others)
    }
    if (last.fault instanceof InstarError) throw last.fault
    if (isUp()) break
    const message = last.fault?.message ?? 'no replica is up'
    if (round === 0) logLine(`waiting for the engine: ${message}`)
    if (late) throw new InstarError('engine_lost', `No engine answered: ${message}.`, { field: 'INSTAR_ENGINE' })
    await delay(RETRY_MS, undefined, signal ? { signal } : {}).catch(() => undefined)
    if (signal?.aborted) throw new InstarError('aborted', 'The start was aborted.')
  }
  for (const replica of replicas)
    void (opening.get(replica) ?? Promise.resolve()).then(() => {
      if (!replica.up()) replica.reopen()
    })
}

const lineOf = ({ kind, ids }: Protocol, replicas: readonly Replica[], contextLength: number): string => {
  const info = replicas.flatMap((replica) => replica.info ?? [])
  const [first] = info
  if (!first) return kind
  const { temperature, filters } = first.logprobs
  const logprobs =
    temperature && filters
      ? 'exact log-probs'
      : temperature
        ? 'exact log-probs without top_p and top_k'
        : 'exact log-probs at temperature 1 without top_p and top_k, other turns are captured but not trained on'
  const answers = ids ? `token ids, ${logprobs}` : 'text only, turns are captured but not trained on'
  return `${kind} ${first.version} (${first.model}), ${info.length} of ${replicas.length} ${replicas.length === 1 ? 'server' : 'replicas'}: ${answers}; adapters ${first.adapterFault === null ? 'loaded at run time' : `not loaded: ${first.adapterFault}`}; ${contextLength < UNKNOWN_CONTEXT ? `context ${contextLength} tokens` : 'context length not reported'}`
}
