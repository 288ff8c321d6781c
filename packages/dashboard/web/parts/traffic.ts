/** How much is asked of the gateway, how fast it answers, and what it holds: figures of its own metrics. */
import { useRef } from 'preact/hooks'
import { count, duration, number } from '../format.ts'
import { html, type View } from '../html.ts'
import type { Now, Times } from '../live.ts'
import { Table } from './table.ts'

/** Bytes. */
export type Memory = { resident: number; heap: number; heap_limit: number }
type Row = { name: string; value: string; of: string }

const MIB = 2 ** 20
const mib = (bytes: number): string => `${count(bytes / MIB)} MiB`
const times = ({ p50, p99 }: Times): string =>
  [p50, p99].map((seconds) => duration(seconds === null ? null : 1_000 * seconds)).join(', ')
const SINCE = 'since the gateway’s start'

/** Counters per second since the page was opened. Times are the gateway's. */
const rate = (from: Now, to: Now, at: number, of: 'requests' | 'tokens'): string => {
  const seconds = (at - Date.parse(from.at)) / 1_000
  return seconds < 1 ? '–' : number((to.traffic[of] - from.traffic[of]) / seconds, 2)
}

/** `checked`: when the checks were read last; null: not yet. */
export const TrafficTable = ({
  now,
  checked,
  memory,
}: {
  now: Now
  checked: string | null
  memory: Memory | null
}): View => {
  const first = useRef(now)
  // A gateway that was started again counts from 0.
  if (now.traffic.requests < first.current.traffic.requests) first.current = now
  const at = Math.max(Date.parse(now.at), checked === null ? 0 : Date.parse(checked))
  const { traffic, engine } = now
  const rows: Row[] = [
    { name: 'Requests', value: count(traffic.requests), of: `answered ${SINCE}` },
    {
      name: 'Requests per second',
      value: rate(first.current, now, at, 'requests'),
      of: 'mean since this page was opened',
    },
    {
      name: 'Tokens per second',
      value: rate(first.current, now, at, 'tokens'),
      of: `of all answers, mean since this page was opened; ${count(traffic.tokens)} ${SINCE}`,
    },
    {
      name: 'Time to first token, p50, p99',
      value: times(traffic.first_token),
      of: `of ${count(traffic.first_token.count)} answers ${SINCE}`,
    },
    { name: 'Time of a request, p50, p99', value: times(traffic.duration), of: `to its last byte, ${SINCE}` },
    {
      name: 'Time between two tokens, mean',
      value: traffic.per_token === null ? '–' : `${number(1_000 * traffic.per_token, 1)} ms`,
      of: `of one answer, ${SINCE}`,
    },
    { name: 'Engine, running', value: count(engine.running), of: 'answers that are generated now' },
    { name: 'Engine, waiting', value: count(engine.waiting), of: 'answers that wait for their turn' },
    {
      name: 'Memory of the gateway',
      value: memory === null ? '–' : mib(memory.resident),
      of:
        memory === null
          ? 'resident'
          : `resident; ${mib(memory.heap)} of its JavaScript heap, whose limit is ${mib(memory.heap_limit)}`,
    },
  ]
  return html`<${Table} caption="Traffic and memory" rows=${rows} columns=${[
    { name: 'Figure', of: (row: Row) => row.name },
    { name: 'Value', numeric: true, of: (row: Row) => row.value },
    { name: 'Of what', of: (row: Row) => row.of },
  ]} />`
}
