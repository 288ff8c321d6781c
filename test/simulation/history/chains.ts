/** The chains: each record names the one before it, so that a chain is read from its beginning. */
import type {
  BatchSealed,
  LineStarted,
  UpdateComputed,
  UpdateFailed,
  UpdatesEvent,
  VersionPublished,
  VersionRejected,
  WeightsEvent,
} from '@instar/events'
import type { Fact } from './facts.ts'

type Link = { prev: string }
/** From the first record, which names none, to each next one: the earliest that names the last. */
const walk = <E extends UpdatesEvent | WeightsEvent>(
  facts: readonly Fact<E>[],
  mayBegin: (event: E) => boolean,
): Fact<E>[] => {
  const chain: Fact<E>[] = []
  for (let last: Fact<E> | undefined; ; chain.push(last)) {
    last = facts.find(({ at, event }) =>
      last
        ? at > last.at && !isStart(event) && (event as Link).prev === last.id
        : mayBegin(event) && (event as Link).prev === '',
    )
    if (!last) return chain
  }
}
const isStart = (event: { type: string }): boolean => event.type === 'LineStarted'

export type Batch = {
  fact: Fact<BatchSealed>
  sealed: BatchSealed
  outcome: Fact<UpdateComputed | UpdateFailed> | null
}
export type Training = { chain: Fact<UpdatesEvent>[]; tip: string; batches: Batch[] }

export const trainingOf = (facts: readonly Fact<UpdatesEvent>[]): Training => {
  const chain = walk(facts, () => true)
  const batches = chain.flatMap((fact) =>
    fact.event.type === 'BatchSealed' ? [{ fact: fact as Fact<BatchSealed>, sealed: fact.event }] : [],
  )
  const outcome = (id: string): Batch['outcome'] =>
    (chain.find(
      ({ event }) => (event.type === 'UpdateComputed' || event.type === 'UpdateFailed') && event.batch === id,
    ) ?? null) as Batch['outcome']
  return {
    chain,
    tip: chain.at(-1)?.id ?? '',
    batches: batches.map((batch) => ({ ...batch, outcome: outcome(batch.fact.id) })),
  }
}

/** Turns that are in a batch, used or dropped. */
export const spentIn = (batches: readonly Batch[]): string[] =>
  batches.flatMap(({ sealed }) => [...sealed.items, ...sealed.dropped].map(({ turn }) => turn))

export const updateIn = (
  batches: readonly Batch[],
  update: string,
): (Batch & { outcome: Fact<UpdateComputed> }) | undefined =>
  batches.find(
    (batch): batch is Batch & { outcome: Fact<UpdateComputed> } =>
      batch.outcome?.id === update && batch.outcome.event.type === 'UpdateComputed',
  )

export type Version = {
  number: number
  parent: number | null
  adapter: string | null
  state: string | null
  update: string | null
  record: string
}
export type Line = {
  chain: Fact<WeightsEvent>[]
  tip: string
  started: LineStarted | null
  versions: Version[]
  head: number
  frozen: boolean
  verdicts: Fact<VersionPublished | VersionRejected>[]
  requests: string[]
}

export const lineOf = (facts: readonly Fact<WeightsEvent>[]): Line => {
  const chain = walk(facts, isStart)
  const events = chain.map(({ event }) => event)
  const first = chain[0]
  const started = first?.event.type === 'LineStarted' ? first.event : null
  const published = chain.filter((fact): fact is Fact<VersionPublished> => fact.event.type === 'VersionPublished')
  const base: Version = {
    number: 0,
    parent: null,
    adapter: started?.parent?.adapter ?? null,
    state: started?.parent?.state ?? null,
    update: null,
    record: first?.id ?? '',
  }
  const moved = events.findLast((event) => event.type === 'VersionPublished' || event.type === 'HeadMoved')
  const stopped = events.findLast(
    (event) => event.type === 'LearningFrozen' || (event.type === 'HeadMoved' && event.freeze),
  )
  return {
    chain,
    tip: chain.at(-1)?.id ?? '',
    started,
    versions: started
      ? [
          base,
          ...published.map(({ id, event: { number, parent, adapter, state, update } }) => ({
            number,
            parent,
            adapter,
            state,
            update,
            record: id,
          })),
        ]
      : [],
    head: moved === undefined ? 0 : moved.type === 'HeadMoved' ? moved.to : (moved as VersionPublished).number,
    frozen: stopped !== undefined && (stopped.type === 'HeadMoved' || (stopped as { on: boolean }).on),
    verdicts: chain.filter(
      (fact): fact is Fact<VersionPublished | VersionRejected> =>
        fact.event.type === 'VersionPublished' || fact.event.type === 'VersionRejected',
    ),
    requests: events.flatMap((event) => ('request' in event ? [event.request] : [])),
  }
}

export const headOf = (line: Line): Version | undefined => line.versions.find(({ number }) => number === line.head)

/** Updates between a version and the head, along parents; null if it is no ancestor. */
export const stepsBehind = (line: Line, version: number): number | null => {
  const ancestors: number[] = []
  for (
    let at: number | null = line.head;
    at !== null;
    at = line.versions.find(({ number }) => number === at)?.parent ?? null
  )
    ancestors.push(at)
  const steps = ancestors.indexOf(version)
  return steps < 0 ? null : steps
}

/** Refusals with figures after the last record that gave the line a head. */
export const rejectionsInARow = (chain: Line['chain']): number =>
  chain
    .slice(chain.findLastIndex(({ event }) => event.type === 'VersionPublished' || event.type === 'HeadMoved') + 1)
    .filter(({ event }) => event.type === 'VersionRejected' && Object.keys(event.figures).length > 0).length

/** The best content score of the base and of all accepted versions. */
export const bestContent = ({ started, chain }: Line): number =>
  Math.max(
    started?.settings['content'] ?? -Infinity,
    ...chain.map(({ event }) =>
      event.type === 'VersionPublished' ? (event.figures['content'] ?? -Infinity) : -Infinity,
    ),
  )
