/** The metrics of a process, or of one thread of a process, in the text format of Prometheus. */
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { METRICS, type Labels, type MetricEntry, type MetricName } from './table.ts'
import type { LabelValues } from './labels.ts'

export type Sample<N extends MetricName> = readonly [labels: Labels<N>, value: number]
type Reader = () => readonly Sample<MetricName>[] | Promise<readonly Sample<MetricName>[]>
/** `added`: to a counter since the last export; null: the series is not cached. */
type Series = { labels: Record<string, string>; added: number | null }
/** `lastTotals`: the totals of the previous read, by labels. */
type Source = { read: Reader; lastTotals: Map<string, number> }

export type Metrics = {
  /** Adds to a counter. */
  count<N extends MetricName>(name: N, labels: Labels<N>, by?: number): void
  /** Adds a value to a histogram. */
  observe<N extends MetricName>(name: N, labels: Labels<N>, value: number): void
  /**
   * Registers a function that returns all values of a gauge, or all totals of a counter; it is called at each export until it is
   * removed by what this returns.
   */
  read<N extends MetricName>(name: N, read: () => readonly Sample<N>[] | Promise<readonly Sample<N>[]>): () => void
  /** Adds the metrics of another thread of the process to `text`. */
  join(values: () => Promise<MetricValues>): void
  /** The metrics of this thread without those of the process, for `join` in another thread. */
  values(): Promise<MetricValues>
  /** `values` of this thread and of the joined one. */
  allValues(): Promise<MetricValues>
  /** All metrics in the text format. */
  text(): Promise<string>
}

/** Metrics as plain data. */
export type MetricValues = Awaited<ReturnType<Registry['getMetricsAsJSON']>>

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE

/** Most time for a reader or another thread, for example while brokers do not respond. Its samples are then missing. */
const READ_MS = 2000
/** The label value for values that are not listed or beyond the maximum number. */
const OTHER = 'other'
/** Most combinations of label values of a metric; further ones are combined in one series of `other` values. */
const MOST_SERIES = 500
/** Resolution of the measured event loop delay, which each value includes. A look wakes the process: every 20 ms that was most of the CPU of an idle one. */
const EVENT_LOOP_PRECISION_MS = 100

let shared: Registry | null = null

/** CPU, memory, event loop and garbage collection of the process; shared by all `Metrics` of a thread. */
const processRegistry = (): Registry => {
  if (shared) return shared
  shared = new Registry()
  collectDefaultMetrics({ register: shared, eventLoopMonitoringPrecision: EVENT_LOOP_PRECISION_MS })
  return shared
}

/** Names and descriptions of the metrics of the process. */
export const processMetrics = async (): Promise<{ name: string; help: string; type: string }[]> =>
  (await processRegistry().getMetricsAsJSON()).map(({ name, help, type }) => ({ name, help, type: String(type) }))

export const createMetrics = (): Metrics => {
  const registry = new Registry()
  const values = new Map<string, Set<string>>()
  const sources = new Map<MetricName, Source[]>()
  let otherThread: (() => Promise<MetricValues>) | null = null
  const counters = memoised((name) => new Counter({ ...described(name), registers: [registry] }))
  const gauges = memoised((name) => new Gauge({ ...described(name), registers: [registry] }))
  const histograms = memoised((name) => {
    const { buckets } = entryOf(name)
    return new Histogram({ ...described(name), registers: [registry], ...(buckets ? { buckets: [...buckets] } : {}) })
  })
  processRegistry()

  /** Adds a value to the set `key`. False if the value is new and the set has `most` values already. */
  const isWithin = (key: string, value: string, most: number): boolean => {
    const known = values.get(key) ?? new Set<string>()
    if (known.has(value)) return true
    if (known.size >= most) return false
    values.set(key, known.add(value))
    return true
  }

  const boundedLabels = (name: MetricName, labels: Readonly<Record<string, string>>): Record<string, string> => {
    const allowed = Object.entries<LabelValues>(entryOf(name).labels ?? {})
    const bounded = allowed.map(([label, limit]) => {
      const value = labels[label] ?? ''
      return ('most' in limit ? isWithin(`${name} ${label}`, value, limit.most) : limit.includes(value)) ? value : OTHER
    })
    const withinSeries = isWithin(name, bounded.join('\n'), MOST_SERIES)
    return Object.fromEntries(allowed.map(([label], i) => [label, withinSeries ? bounded[i]! : OTHER]))
  }

  const labelNames = memoised((name) => Object.keys(entryOf(name).labels ?? {}))
  const cachedSeries = memoised(() => new Map<string, Series>())
  /** The series of `boundedLabels`, with a cache, for counters and histograms that are updated often. */
  const seriesOf = (name: MetricName, labels: Readonly<Record<string, string>>): Series => {
    let key = ''
    for (const label of labelNames(name)) key += `${labels[label] ?? ''}\n`
    const cache = cachedSeries(name)
    const cached = cache.get(key)
    if (cached) return cached
    const isCached = cache.size < MOST_SERIES
    const series = { labels: boundedLabels(name, labels), added: isCached ? 0 : null }
    if (isCached) cache.set(key, series)
    return series
  }

  /** Series of counters with something to add. */
  const added = new Map<Series, MetricName>()
  /** The library sorts and joins the labels at each addition, so that additions are summed up until an export. */
  const count = (name: MetricName, labels: Readonly<Record<string, string>>, by: number): void => {
    const series = seriesOf(name, labels)
    if (series.added === null) return counters(name).inc(series.labels, by)
    if (series.added === 0) added.set(series, name)
    series.added += by
  }
  const addAll = (): void => {
    for (const [series, name] of added) {
      counters(name).inc(series.labels, series.added ?? 0)
      series.added = 0
    }
    added.clear()
  }

  /** Sets a gauge to the values read; increases a counter by the differences to the previous totals. */
  const update = (name: MetricName, sources: readonly (readonly [Source, readonly Sample<MetricName>[]])[]): void => {
    const gauge = entryOf(name).type === 'gauge' ? gauges(name) : null
    gauge?.reset()
    for (const [{ lastTotals }, samples] of sources) {
      for (const [labels, value] of samples) {
        if (!Number.isFinite(value)) continue
        if (gauge) gauge.set(boundedLabels(name, labels), value)
        else {
          const key = JSON.stringify(labels)
          const before = lastTotals.get(key) ?? 0
          lastTotals.set(key, value)
          counters(name).inc(boundedLabels(name, labels), value < before ? value : value - before)
        }
      }
    }
  }

  const readAll = async (): Promise<void> => {
    addAll()
    const read = await Promise.all(
      [...sources].map(
        async ([name, all]) =>
          [
            name,
            await Promise.all(all.map(async (source) => [source, await samplesOf(source.read)] as const)),
          ] as const,
      ),
    )
    for (const [name, all] of read) update(name, all)
  }

  /** The metrics of this thread and of the joined one. */
  const aggregated = async (): Promise<Registry> => {
    await readAll()
    const others = otherThread ? await withTimeout(otherThread(), []) : []
    return others.length > 0 ? AggregatorRegistry.aggregate([await registry.getMetricsAsJSON(), others]) : registry
  }

  return {
    count: (name, labels, by = 1) => count(name, labels, by),
    observe: (name, labels, value) => histograms(name).observe(seriesOf(name, labels).labels, value),
    read(name, read) {
      const source: Source = { read: read as Reader, lastTotals: new Map() }
      sources.set(name, [...(sources.get(name) ?? []), source])
      return () => sources.set(name, sources.get(name)?.filter((one) => one !== source) ?? [])
    },
    join(values) {
      otherThread = values
    },
    async values() {
      await readAll()
      return registry.getMetricsAsJSON()
    },
    async allValues() {
      return (await aggregated()).getMetricsAsJSON()
    },
    async text() {
      return `${await (await aggregated()).metrics()}${await processRegistry().metrics()}`
    },
  }
}

/** Metrics that record nothing. */
export const NO_METRICS: Metrics = {
  count: () => undefined,
  observe: () => undefined,
  read: () => () => undefined,
  join: () => undefined,
  values: () => Promise.resolve([]),
  allValues: () => Promise.resolve([]),
  text: () => Promise.resolve(''),
}

const entryOf = (name: MetricName): MetricEntry => METRICS[name]

const described = (name: MetricName): { name: string; help: string; labelNames: string[] } => ({
  name,
  help: entryOf(name).help,
  labelNames: Object.keys(entryOf(name).labels ?? {}),
})

/** Creates a value per metric at its first use. */
const memoised = <T>(create: (name: MetricName) => T): ((name: MetricName) => T) => {
  const values = new Map<MetricName, T>()
  return (name) => {
    const value = values.get(name) ?? create(name)
    values.set(name, value)
    return value
  }
}

const samplesOf = async (read: Reader): Promise<readonly Sample<MetricName>[]> => {
  const samples = read()
  return samples instanceof Promise ? withTimeout(samples, []) : samples
}

/** The result of `promise`, or `fallback` if it rejects or takes longer than READ_MS. */
const withTimeout = async <T>(promise: Promise<T>, fallback: T): Promise<T> => {
  const timeout = Promise.withResolvers<T>()
  const timer = setTimeout(() => timeout.resolve(fallback), READ_MS)
  try {
    return await Promise.race([promise.catch(() => fallback), timeout.promise])
  } finally {
    clearTimeout(timer)
  }
}
