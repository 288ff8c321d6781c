/** The metrics of one process, or of one service in a process of several, in Prometheus's text format. */
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { METRICS, type Labels, type MetricEntry, type MetricName } from './table.ts'
import type { LabelValues } from './labels.ts'

export type Sample<N extends MetricName> = readonly [labels: Labels<N>, value: number]
type Reader = () => readonly Sample<MetricName>[] | Promise<readonly Sample<MetricName>[]>
/** `last`: totals as they were read before, by labels. */
type Source = { read: Reader; last: Map<string, number> }

export type Metrics = {
  /** Adds to a counter. */
  count<N extends MetricName>(name: N, labels: Labels<N>, by?: number): void
  /** One value of a histogram. */
  observe<N extends MetricName>(name: N, labels: Labels<N>, value: number): void
  /** A gauge or counter whose values are kept elsewhere: `read` is asked for all of them whenever somebody asks here. */
  read<N extends MetricName>(name: N, read: () => readonly Sample<N>[] | Promise<readonly Sample<N>[]>): void
  /** What another thread of the process measures, by the same table: `text` adds it to what is measured here. */
  join(values: () => Promise<MetricValues>): void
  /** What is measured here, without what the process tells of itself: for another thread's `join`. */
  values(): Promise<MetricValues>
  text(): Promise<string>
}

/** Metrics and their values as plain data. */
export type MetricValues = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE

/** A reader that does not answer, say because brokers are away, is not waited for longer: its samples are missing. */
const READ_MS = 2000
/** What every value is told as that is not listed, or is one too many. */
const OTHER = 'other'
/** Combinations of label values that one metric tells apart. */
const MOST_SERIES = 500
/** Resolution of the event loop's delay. */
const LOOP_MS = 20

let shared: Registry | null = null

/** CPU, memory, event loop and garbage collections are the process's, whoever asks: one set for all. */
const processRegistry = (): Registry => {
  if (shared) return shared
  shared = new Registry()
  collectDefaultMetrics({ register: shared, eventLoopMonitoringPrecision: LOOP_MS })
  return shared
}

/** The names of the metrics that every process tells of itself, with their descriptions. */
export const processMetrics = async (): Promise<{ name: string; help: string; type: string }[]> =>
  (await processRegistry().getMetricsAsJSON()).map(({ name, help, type }) => ({ name, help, type: String(type) }))

export const createMetrics = (): Metrics => {
  const registry = new Registry()
  const values = new Map<string, Set<string>>()
  const sources = new Map<MetricName, Source[]>()
  let joined: (() => Promise<MetricValues>) | null = null
  const counters = kept((name) => new Counter({ ...described(name), registers: [registry] }))
  const gauges = kept((name) => new Gauge({ ...described(name), registers: [registry] }))
  const histograms = kept((name) => {
    const { buckets } = entryOf(name)
    return new Histogram({ ...described(name), registers: [registry], ...(buckets ? { buckets: [...buckets] } : {}) })
  })
  processRegistry()

  /** False: there are `most` others already. */
  const isKnown = (place: string, value: string, most: number): boolean => {
    const known = values.get(place) ?? new Set<string>()
    if (known.has(value)) return true
    if (known.size >= most) return false
    values.set(place, known.add(value))
    return true
  }

  const boundedLabels = (name: MetricName, labels: Readonly<Record<string, string>>): Record<string, string> => {
    const allowed = Object.entries<LabelValues>(entryOf(name).labels ?? {})
    const told = allowed.map(([label, which]) => {
      const value = labels[label] ?? ''
      return ('most' in which ? isKnown(`${name} ${label}`, value, which.most) : which.includes(value)) ? value : OTHER
    })
    const whole = isKnown(name, told.join('\n'), MOST_SERIES)
    return Object.fromEntries(allowed.map(([label], i) => [label, whole ? told[i]! : OTHER]))
  }

  const names = kept((name) => Object.keys(entryOf(name).labels ?? {}))
  const bound = kept(() => new Map<string, Record<string, string>>())
  /** `boundedLabels`, of what is told again and again without asking. */
  const labelsOf = (name: MetricName, labels: Readonly<Record<string, string>>): Record<string, string> => {
    let key = ''
    for (const label of names(name)) key += `${labels[label] ?? ''}\n`
    const before = bound(name)
    const found = before.get(key)
    if (found) return found
    const bounded = boundedLabels(name, labels)
    if (before.size < MOST_SERIES) before.set(key, bounded)
    return bounded
  }

  /** A gauge is as it was read last; a counter grows by what a reader's total has grown since it was asked. */
  const put = (name: MetricName, sources: readonly (readonly [Source, readonly Sample<MetricName>[]])[]): void => {
    const gauge = entryOf(name).type === 'gauge' ? gauges(name) : null
    gauge?.reset()
    for (const [{ last }, samples] of sources) {
      for (const [labels, value] of samples) {
        if (!Number.isFinite(value)) continue
        if (gauge) gauge.set(boundedLabels(name, labels), value)
        else {
          const key = JSON.stringify(labels)
          const before = last.get(key) ?? 0
          last.set(key, value)
          counters(name).inc(boundedLabels(name, labels), value < before ? value : value - before)
        }
      }
    }
  }

  const readAll = async (): Promise<void> => {
    const read = await Promise.all(
      [...sources].map(
        async ([name, all]) =>
          [name, await Promise.all(all.map(async (source) => [source, await soon(source.read)] as const))] as const,
      ),
    )
    for (const [name, all] of read) put(name, all)
  }

  return {
    count: (name, labels, by = 1) => counters(name).inc(labelsOf(name, labels), by),
    observe: (name, labels, value) => histograms(name).observe(labelsOf(name, labels), value),
    read(name, read) {
      sources.set(name, [...(sources.get(name) ?? []), { read: read as Reader, last: new Map() }])
    },
    join(values) {
      joined = values
    },
    async values() {
      await readAll()
      return registry.getMetricsAsJSON()
    },
    async text() {
      await readAll()
      const others = joined ? await within(joined(), []) : []
      const all =
        others.length > 0 ? AggregatorRegistry.aggregate([await registry.getMetricsAsJSON(), others]) : registry
      return `${await all.metrics()}${await processRegistry().metrics()}`
    },
  }
}

/** What every call does where nobody watches. */
export const NO_METRICS: Metrics = {
  count: () => undefined,
  observe: () => undefined,
  read: () => undefined,
  join: () => undefined,
  values: () => Promise.resolve([]),
  text: () => Promise.resolve(''),
}

const entryOf = (name: MetricName): MetricEntry => METRICS[name]

const described = (name: MetricName): { name: string; help: string; labelNames: string[] } => ({
  name,
  help: entryOf(name).help,
  labelNames: Object.keys(entryOf(name).labels ?? {}),
})

/** One metric for each name, made when it is first wanted. */
const kept = <T>(make: (name: MetricName) => T): ((name: MetricName) => T) => {
  const made = new Map<MetricName, T>()
  return (name) => {
    const metric = made.get(name) ?? make(name)
    made.set(name, metric)
    return metric
  }
}

const soon = async (read: Reader): Promise<readonly Sample<MetricName>[]> => {
  const answer = read()
  return answer instanceof Promise ? within(answer, []) : answer
}

/** `otherwise` when it fails, or does not answer in time. */
const within = async <T>(answer: Promise<T>, otherwise: T): Promise<T> => {
  const late = Promise.withResolvers<T>()
  const timer = setTimeout(() => late.resolve(otherwise), READ_MS)
  try {
    return await Promise.race([answer.catch(() => otherwise), late.promise])
  } finally {
    clearTimeout(timer)
  }
}
