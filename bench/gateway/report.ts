/** Evaluates the rounds: a row for each subject and case, the targets, and a table for docs/performance.md. */
import { median, quantile, rounded } from '../machine.ts'
import { caseName, LOOPS, type Case } from './cases.ts'
import type { Outcome } from './client.ts'
import type { Size } from './prompts.ts'
import type { Name } from './subjects.ts'

/** One subject in one case of one round. `cpuMs`: of a request; `megabytes`: of its processes. */
export type Measurement = {
  at: Case
  name: Name
  round: number
  perSecond: number
  cpuMs: number
  megabytes: number
  outcome: Outcome
}

/**
 * Times in ms. `ofFloor`: CPU relative to the pass-through. `added…`: difference to the same quantile of the engine
 * alone. Null: the kind of load does not measure it.
 */
export type Row = {
  case: string
  who: Name
  count: number
  failed: number
  cpuMs: number
  ofFloor: number | null
  perSecond: number | null
  p50: number | null
  p99: number | null
  addedP50: number | null
  addedP99: number | null
  firstP50: number | null
  firstP99: number | null
  megabytes: number
}

const groupBy = <T>(all: readonly T[], keyOf: (one: T) => string): T[][] => [...Map.groupBy(all, keyOf).values()]

/** Rates and CPU are medians of the rounds; quantiles are of the answers of all rounds together. */
export const rowsOf = (measurements: readonly Measurement[]): Row[] =>
  groupBy(measurements, ({ at }) => caseName(at)).flatMap((all) => {
    const of = (name: Name) => all.filter((one) => one.name === name)
    const passThrough = of('pass-through')
    const quantiles = (group: readonly Measurement[], which: 'totals' | 'firsts', share: number): number =>
      quantile(
        group.flatMap(({ outcome }) => outcome[which]),
        share,
      )
    return groupBy(all, ({ name }) => name).map((group): Row => {
      const { at, name } = group[0]!
      const openLoop = at.kind === 'open'
      const when = (measured: boolean, value: () => number): number | null => (measured ? rounded(value()) : null)
      const cpuMs = median(group.map((one) => one.cpuMs))
      return {
        case: caseName(at),
        who: name,
        count: group.reduce((sum, { outcome }) => sum + outcome.count, 0),
        failed: group.reduce((sum, { outcome }) => sum + outcome.failed, 0),
        cpuMs: rounded(cpuMs),
        ofFloor: when(
          name !== 'direct' && passThrough.length > 0,
          () => cpuMs / median(passThrough.map((one) => one.cpuMs)),
        ),
        perSecond: when(!openLoop, () => median(group.map((one) => one.perSecond))),
        p50: when(openLoop, () => quantiles(group, 'totals', 0.5)),
        p99: when(openLoop, () => quantiles(group, 'totals', 0.99)),
        addedP50: when(
          openLoop && name !== 'direct',
          () => quantiles(group, 'totals', 0.5) - quantiles(of('direct'), 'totals', 0.5),
        ),
        addedP99: when(
          openLoop && name !== 'direct',
          () => quantiles(group, 'totals', 0.99) - quantiles(of('direct'), 'totals', 0.99),
        ),
        firstP50: when(openLoop && at.stream, () => quantiles(group, 'firsts', 0.5)),
        firstP99: when(openLoop && at.stream, () => quantiles(group, 'firsts', 0.99)),
        megabytes: Math.round(Math.max(...group.map(({ megabytes }) => megabytes))),
      }
    })
  })

/** A line for each target: whether it is reached, and the median of the rounds' own values. */
export const targetsOf = (measurements: readonly Measurement[]): string[] => {
  const rounds = [...new Set(measurements.map(({ round }) => round))]
  const measurementOf = (
    round: number,
    name: Name,
    size: Size,
    kind: Case['kind'],
    stream = false,
  ): Measurement | undefined =>
    measurements.find(
      (of) =>
        of.round === round && of.name === name && of.at.size === size && of.at.kind === kind && of.at.stream === stream,
    )
  const compare = (
    value: (round: number) => number | undefined,
    peer: (round: number) => number | undefined,
    compared: (a: number, b: number) => number,
  ): number | null => {
    const values = rounds.flatMap((round) => {
      const [a, b] = [value(round), peer(round)]
      return a === undefined || b === undefined || Number.isNaN(a) || Number.isNaN(b) ? [] : [compared(a, b)]
    })
    return values.length === 0 ? null : median(values)
  }
  const ratio = (a: number, b: number): number => a / b
  const cpu =
    (name: Name, size: Size, stream = false) =>
    (round: number) =>
      measurementOf(round, name, size, 'closed', stream)?.cpuMs
  const p99 =
    (name: Name, stream = false) =>
    (round: number) =>
      quantile(measurementOf(round, name, '1 KB', 'open', stream)?.outcome.totals ?? [], 0.99)
  const first = (name: Name) => (round: number) =>
    quantile(measurementOf(round, name, '1 KB', 'open', true)?.outcome.firsts ?? [], 0.5)
  const targets: [what: string, value: number | null, limit: number, atMost: boolean, unit?: string][] = [
    [
      '1 KB: CPU of a request, of the pass-through’s',
      compare(cpu('ours', '1 KB'), cpu('pass-through', '1 KB'), ratio),
      3,
      true,
    ],
    ['1 KB, stream: the same', compare(cpu('ours', '1 KB', true), cpu('pass-through', '1 KB', true), ratio), 3, true],
    ['1 KB: CPU of a request, of Portkey’s', compare(cpu('ours', '1 KB'), cpu('Portkey', '1 KB'), ratio), 0.4, true],
    ['1 KB, stream: the same', compare(cpu('ours', '1 KB', true), cpu('Portkey', '1 KB', true), ratio), 0.4, true],
    ['1 KB: first byte of a stream, p50, of Portkey’s', compare(first('ours'), first('Portkey'), ratio), 0.1, true],
    ['1 KB: p99 beyond the pass-through’s', compare(p99('ours'), p99('pass-through'), (a, b) => a - b), 5, true, ' ms'],
    ['1 KB, stream: the same', compare(p99('ours', true), p99('pass-through', true), (a, b) => a - b), 5, true, ' ms'],
    [
      'npm start, 1 KB: p99 beyond the pass-through’s',
      compare(p99('npm start'), p99('pass-through'), (a, b) => a - b),
      15,
      true,
      ' ms',
    ],
    [
      'npm start, 1 KB, stream: the same',
      compare(p99('npm start', true), p99('pass-through', true), (a, b) => a - b),
      15,
      true,
      ' ms',
    ],
    [
      '200 KB: CPU of a request, of the pass-through’s',
      compare(cpu('ours', '200 KB'), cpu('pass-through', '200 KB'), ratio),
      5,
      true,
    ],
    [
      '200 KB, stream: the same',
      compare(cpu('ours', '200 KB', true), cpu('pass-through', '200 KB', true), ratio),
      5,
      true,
    ],
    [
      '200 KB that repeat an earlier turn: the same',
      compare(cpu('ours', '200 KB again'), cpu('pass-through', '200 KB again'), ratio),
      5,
      true,
    ],
  ]
  return targets.flatMap(([what, value, limit, atMost, unit = '×']) => {
    if (value === null) return []
    const reached = atMost ? value <= limit : value >= limit
    return [
      `${reached ? 'reached    ' : 'NOT REACHED'} ${what}: ${rounded(value)}${unit} (${atMost ? 'at most' : 'at least'} ${limit}${unit})`,
    ]
  })
}

/** The name of the case without its load. */
const requestOf = (row: Row): string => row.case.slice(0, row.case.lastIndexOf(', '))

/** A Markdown table: the closed and the open loop of one kind of request in one line. */
export const tableOf = (rows: readonly Row[]): string => {
  const text = (value: number | null | undefined): string =>
    value === null || value === undefined
      ? ''
      : value >= 1000
        ? Math.round(value).toLocaleString('en-US')
        : String(value)
  const pair = (a: number | null | undefined, b: number | null | undefined): string =>
    a === null || a === undefined ? '' : `${text(a)} / ${text(b)}`
  const lines = groupBy(rows, (row) => `${requestOf(row)}\n${row.who}`).map((both) => {
    const [closed, open] = (['closed', 'open'] as const).map((kind) =>
      both.find((row) => row.case.endsWith(`, ${LOOPS[kind]}`)),
    )
    const { who, megabytes } = both[0]!
    const hasUsage = who !== 'direct'
    return [
      requestOf(both[0]!),
      who === 'ours' ? '**ours**' : who,
      hasUsage ? text(closed?.cpuMs) : '',
      hasUsage ? text(closed?.ofFloor) : '',
      text(closed?.perSecond),
      pair(open?.p50, open?.p99),
      pair(open?.addedP50, open?.addedP99),
      pair(open?.firstP50, open?.firstP99),
      hasUsage ? text(megabytes) : '',
    ]
  })
  const header = [
    'request',
    'who',
    'CPU ms',
    'of the pass-through',
    'requests/s',
    'p50 / p99 ms',
    'added to direct',
    'first byte p50 / p99',
    'MB',
  ]
  return [header, header.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
