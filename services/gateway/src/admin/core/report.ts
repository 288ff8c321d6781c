/** The gateway's reports: the list of models and the status. */
import type { WeightLine } from '@instar/events'
import type { NameFigures } from '../../session/core/held-names.ts'
import { servedVersion, type Served } from '../../versions/core/pool-plan.ts'

/** The fields that the reports read, a subset of the gateway's parts. */
export type GatewayState = {
  config: { policy: string; keepVersions: number }
  model: { name: string; sha256: string; contextLength: number }
  engine: {
    capabilities(): { engine: string; fingerprint: string; maxBatch: number }
    pending(): { running: number; waiting: number }
  }
  line: WeightLine
  pool: { serving(): Served | null; problem(): { version: number; message: string } | null; loadedAdapters(): string[] }
  capture: { queue(): { pending: number; failed: number } }
  index: {
    recent: { readonly size: number }
    turns: number
    forgotten: { readonly size: number }
    ignored: ReadonlyMap<string, number>
    /** Names on the disk; null: none are held. */
    held: { figures(): NameFigures } | null
  }
  reader: { recentBytes(): number }
  ignoredWeights: ReadonlyMap<string, number>
  running: number
  /** Candidates that wait to be sampled in the background. */
  candidates: number
  /** Judgements that wait for the model to be idle, or run. */
  judgements: number
  /** Bytes of memory that request bodies occupy. */
  bodies: number
  /** Feedback requests in progress. */
  feedback: number
  bad: number
  unready: Unready | null
}

export type Unready = { status: string; problem: unknown }

/** Why the gateway takes no requests; null: it does. */
export const unreadiness = (now: {
  stopping: boolean
  /** Why the log takes no records. */
  refusal: { code: string; message: string } | null
  /** Why the log is not followed. */
  ended: { topic: string; error: Error } | null
  /** Why the engine cannot answer. */
  lost: string | null
  pool: Pick<GatewayState['pool'], 'serving' | 'problem'>
}): Unready | null => {
  const { stopping, refusal, ended, lost, pool } = now
  if (stopping) return { status: 'stopping', problem: null }
  if (refusal)
    return {
      status: refusal.code === 'log_broken' ? 'log broken' : 'log not taking',
      problem: { message: refusal.message },
    }
  if (ended) return { status: 'not following', problem: { topic: ended.topic, message: ended.error.message } }
  if (lost !== null) return { status: 'engine lost', problem: { message: lost } }
  return pool.serving() ? null : { status: 'starting', problem: pool.problem() }
}

/** A model's description with the fields of both OpenAI's and Anthropic's API. */
type Card = {
  id: string
  object: 'model'
  created: number
  owned_by: string
  root: string
  parent: string | null
  max_model_len: number
  type: 'model'
  display_name: string
  created_at: string
  lifecycle: 'active'
  max_input_tokens: number
  max_tokens: number
}
type Cards = { object: 'list'; data: Card[]; has_more: false; first_id: string | null; last_id: string | null }

/** `version` null: the head. Returns null for an unknown version. */
export const modelCard = ({ config, model, line }: GatewayState, version: number | null): Card | null => {
  const served = servedVersion(line, version ?? line.head)
  if (!served) return null
  const state = line.versions.get(served.version)
  const parent = state?.parent ?? null
  const id = version === null ? config.policy : `${config.policy}@${version}`
  const created = Math.floor((state?.at ?? 0) / 1000)
  return {
    id,
    object: 'model',
    created,
    owned_by: 'instar',
    root: model.name,
    parent:
      version === null ? `${config.policy}@${served.version}` : parent === null ? null : `${config.policy}@${parent}`,
    max_model_len: model.contextLength,
    type: 'model',
    display_name: `${id} (${model.name})`,
    created_at: new Date(1000 * created).toISOString(),
    lifecycle: 'active',
    max_input_tokens: model.contextLength,
    max_tokens: model.contextLength,
  }
}

/** The list names the base and the newest versions, at most this many. Every version can be requested by its name. */
const LISTED = 100

const newest = (line: WeightLine): number[] => {
  const versions: number[] = []
  for (let version = line.last; version >= 0 && versions.length < LISTED; version -= 1)
    if (line.versions.has(version)) versions.push(version)
  if (versions.at(-1) !== 0 && line.versions.has(0)) versions.push(0)
  return versions
}

const isLoaded = (line: WeightLine, version: number, loaded: ReadonlySet<string>): boolean => {
  const adapter = line.versions.get(version)?.adapter ?? null
  return adapter === null || loaded.has(adapter)
}

export const modelList = (known: GatewayState): Cards => {
  const versions = known.line.started ? newest(known.line) : [0]
  const data = [null, ...versions].flatMap((version) => modelCard(known, version) ?? [])
  return { object: 'list', data, has_more: false, first_id: data[0]?.id ?? null, last_id: data.at(-1)?.id ?? null }
}

export const statusOf = (known: GatewayState): Record<string, unknown> => {
  const { config, model, engine, line, pool, capture, index } = known
  const serving = pool.serving()
  const loaded = new Set(pool.loadedAdapters())
  const { engine: name, fingerprint, maxBatch } = engine.capabilities()
  return {
    status: known.unready?.status ?? (pool.problem() ? 'degraded' : 'ready'),
    problem: known.unready?.problem ?? pool.problem(),
    policy: config.policy,
    model: { name: model.name, sha256: model.sha256, contextLength: model.contextLength },
    engine: { name, fingerprint, maxBatch, ...engine.pending() },
    started: line.started !== null,
    head: line.head,
    serving: serving?.version ?? null,
    frozen: line.frozen,
    versions: newest(line).reverse(),
    pool: {
      keep: config.keepVersions,
      loaded: newest(line)
        .reverse()
        .filter((version) => isLoaded(line, version, loaded)),
    },
    requests: { running: known.running, candidatesWaiting: known.candidates },
    log: { ...capture.queue(), unreadable: known.bad },
    index: { sessions: index.recent.size, turns: index.turns, forgotten: index.forgotten.size },
    ignored: { turns: Object.fromEntries(index.ignored), weights: Object.fromEntries(known.ignoredWeights) },
  }
}
