/** What the pipeline does now, pushed by the gateway to all parts of the page. */
import { useEffect, useState } from 'preact/hooks'

export type Gauge = { labels: Record<string, string>; value: number }

/** Quantiles in seconds; null: nothing was measured. */
export type Times = { count: number; p50: number | null; p99: number | null }
/** Since the gateway's start. `per_token`: mean seconds between two tokens of an answer. */
export type Traffic = {
  requests: number
  prompt_tokens: number
  tokens: number
  first_token: Times
  duration: Times
  per_token: number | null
}

export type Now = {
  at: string
  status: string
  problem: { message?: string } | string | null
  policy: string
  model: { name: string; contextLength: number }
  engine: { name: string; fingerprint: string; running: number; waiting: number }
  base: { name: string; sha256: string } | null
  started_at: string | null
  head: number
  serving: number | null
  last_version: number
  frozen: boolean
  rejections_in_a_row: number
  requests: { running: number }
  log: { pending: number; failed: number; unreadable: number }
  index: { sessions: number; turns: number }
  /** Age of the oldest record that a service has not read, in seconds; null: not known to this gateway. */
  lag: Record<'gateway' | 'scorer' | 'trainer' | 'publisher' | 'projections', number | null>
  gauges: Record<string, Gauge[]>
  traffic: Traffic
}

/** `lost`: the connection broke, and the browser tries again. */
export type LiveState = { now: Now | null; state: 'connecting' | 'live' | 'lost' | 'paused' }

let state: LiveState = { now: null, state: 'connecting' }
let source: EventSource | null = null
let retry: number | undefined
const listeners = new Set<(state: LiveState) => void>()

const change = (next: Partial<LiveState>): void => {
  state = { ...state, ...next }
  for (const listener of listeners) listener(state)
}

const RETRY_MS = 2_000

const open = (): void => {
  source?.close()
  source = new EventSource('/v1/dashboard/events')
  source.addEventListener('now', (event) => change({ now: JSON.parse(event.data as string) as Now, state: 'live' }))
  source.addEventListener('error', () => {
    change({ state: 'lost' })
    // After an error response the browser does not try again by itself.
    if (source?.readyState === EventSource.CLOSED) {
      clearTimeout(retry)
      retry = setTimeout(open, RETRY_MS)
    }
  })
}

export const pause = (): void => {
  clearTimeout(retry)
  source?.close()
  source = null
  change({ state: 'paused' })
}

export const resume = (): void => {
  change({ state: 'connecting' })
  open()
}

/**
 * A page that is not seen reads nothing: a browser has six connections for one address, and the stream of each open tab
 * would hold one of them.
 */
document.addEventListener('visibilitychange', () => {
  if (state.state === 'paused') return
  if (document.visibilityState === 'visible') open()
  else {
    clearTimeout(retry)
    source?.close()
  }
})

/** Calls `back` once, when the gateway answers again. Returns what forgets it. */
export const whenLive = (back: () => void): (() => void) => {
  const changed = (next: LiveState): void => {
    if (next.state !== 'live') return
    listeners.delete(changed)
    back()
  }
  listeners.add(changed)
  return () => listeners.delete(changed)
}

export const useLive = (): LiveState => {
  const [shown, setShown] = useState(state)
  useEffect(() => {
    listeners.add(setShown)
    if (!source && state.state !== 'paused') open()
    setShown(state)
    return () => {
      listeners.delete(setShown)
    }
  }, [])
  return shown
}

/** A part of the reading: what uses it is drawn again only when that differs. */
export const useLivePart = <T extends string | number | boolean | null>(of: (live: LiveState) => T): T => {
  const [shown, setShown] = useState(() => of(state))
  useEffect(() => {
    const changed = (next: LiveState): void => setShown(of(next))
    listeners.add(changed)
    if (!source && state.state !== 'paused') open()
    changed(state)
    return () => {
      listeners.delete(changed)
    }
  }, [])
  return shown
}

/** The value of a gauge, summed over its labels; 0 if it is absent. */
export const gauge = (now: Now, name: string): number =>
  (now.gauges[name] ?? []).reduce((sum, { value }) => sum + value, 0)

/** The same; null where it is not known, since the service runs in another process. */
export const knownGauge = (now: Now, name: string): number | null => (now.gauges[name] ? gauge(now, name) : null)

/** The value of the label of the gauge whose value is 1. */
export const gaugeLabel = (now: Now, name: string, label: string): string | null =>
  (now.gauges[name] ?? []).find(({ value }) => value > 0)?.labels[label] ?? null
