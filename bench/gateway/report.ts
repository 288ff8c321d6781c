/** What the rounds come to: a row for each subject and case, the targets, and a table for docs/performance.md. */
import type { Case, Measured } from '../gateway.ts'
import { median, quantile, rounded } from '../machine.ts'
import type { Size } from './prompts.ts'
import type { Name } from './subjects.ts'

/** Milliseconds; `added`: to the same quantile of the engine itself. Null where the kind of load does not give it. */
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

const caseOf = ({ size, stream, kind }: Case): string => `${size}, ${stream ? 'stream' : 'whole'}, ${kind}`

const grouped = <T>(all: readonly T[], keyOf: (one: T) => string): T[][] => [...Map.groupBy(all, keyOf).values()]

/** Medians of the rounds; quantiles of all rounds' answers together. */
export const rowsOf = (found: readonly Measured[]): Row[] =>
  grouped(found, ({ at }) => caseOf(at)).flatMap((all) => {
    const of = (name: Name) => all.filter((one) => one.name === name)
    const floor = of('pass-through')
    const quantiles = (some: readonly Measured[], which: 'totals' | 'firsts', share: number): number =>
      quantile(
        some.flatMap(({ outcome }) => outcome[which]),
        share,
      )
    return grouped(all, ({ name }) => name).map((some): Row => {
      const { at, name } = some[0]!
      const steady = at.kind === 'steady'
      const when = (wanted: boolean, value: () => number): number | null => (wanted ? rounded(value()) : null)
      const cpuMs = median(some.map((one) => one.cpuMs))
      return {
        case: caseOf(at),
        who: name,
        count: some.reduce((sum, { outcome }) => sum + outcome.count, 0),
        failed: some.reduce((sum, { outcome }) => sum + outcome.failed, 0),
        cpuMs: rounded(cpuMs),
        ofFloor: when(name !== 'direct' && floor.length > 0, () => cpuMs / median(floor.map((one) => one.cpuMs))),
        perSecond: when(!steady, () => median(some.map((one) => one.perSecond))),
        p50: when(steady, () => quantiles(some, 'totals', 0.5)),
        p99: when(steady, () => quantiles(some, 'totals', 0.99)),
        addedP50: when(
          steady && name !== 'direct',
          () => quantiles(some, 'totals', 0.5) - quantiles(of('direct'), 'totals', 0.5),
        ),
        addedP99: when(
          steady && name !== 'direct',
          () => quantiles(some, 'totals', 0.99) - quantiles(of('direct'), 'totals', 0.99),
        ),
        firstP50: when(steady && at.stream, () => quantiles(some, 'firsts', 0.5)),
        firstP99: when(steady && at.stream, () => quantiles(some, 'firsts', 0.99)),
        megabytes: Math.round(Math.max(...some.map(({ megabytes }) => megabytes))),
      }
    })
  })

/** The targets, each with what was found: medians over the rounds of what was found within one. */
export const goalsOf = (found: readonly Measured[]): string[] => {
  const rounds = [...new Set(found.map(({ round }) => round))]
  const one = (round: number, name: Name, size: Size, kind: Case['kind'], stream = false): Measured | undefined =>
    found.find(
      (of) =>
        of.round === round && of.name === name && of.at.size === size && of.at.kind === kind && of.at.stream === stream,
    )
  const over = (
    ours: (round: number) => number | undefined,
    theirs: (round: number) => number | undefined,
    join: (a: number, b: number) => number,
  ): number | null => {
    const values = rounds.flatMap((round) => {
      const [a, b] = [ours(round), theirs(round)]
      return a === undefined || b === undefined || Number.isNaN(a) || Number.isNaN(b) ? [] : [join(a, b)]
    })
    return values.length === 0 ? null : median(values)
  }
  const ratio = (a: number, b: number): number => a / b
  const cpu =
    (name: Name, size: Size, stream = false) =>
    (round: number) =>
      one(round, name, size, 'busy', stream)?.cpuMs
  const p99 =
    (name: Name, stream = false) =>
    (round: number) =>
      quantile(one(round, name, '1 KB', 'steady', stream)?.outcome.totals ?? [], 0.99)
  const first = (name: Name) => (round: number) =>
    quantile(one(round, name, '1 KB', 'steady', true)?.outcome.firsts ?? [], 0.5)
  const goals: [what: string, value: number | null, limit: number, atMost: boolean, unit?: string][] = [
    [
      '1 KB: CPU of a request, of the pass-through’s',
      over(cpu('ours', '1 KB'), cpu('pass-through', '1 KB'), ratio),
      3,
      true,
    ],
    ['1 KB, stream: the same', over(cpu('ours', '1 KB', true), cpu('pass-through', '1 KB', true), ratio), 3, true],
    ['1 KB: CPU of a request, of Portkey’s', over(cpu('ours', '1 KB'), cpu('Portkey', '1 KB'), ratio), 0.4, true],
    ['1 KB, stream: the same', over(cpu('ours', '1 KB', true), cpu('Portkey', '1 KB', true), ratio), 0.4, true],
    ['1 KB: first byte of a stream, p50, of Portkey’s', over(first('ours'), first('Portkey'), ratio), 0.1, true],
    ['1 KB: p99 beyond the pass-through’s', over(p99('ours'), p99('pass-through'), (a, b) => a - b), 5, true, ' ms'],
    ['1 KB, stream: the same', over(p99('ours', true), p99('pass-through', true), (a, b) => a - b), 5, true, ' ms'],
    [
      'npm start, 1 KB: p99 beyond the pass-through’s',
      over(p99('npm start'), p99('pass-through'), (a, b) => a - b),
      15,
      true,
      ' ms',
    ],
    [
      'npm start, 1 KB, stream: the same',
      over(p99('npm start', true), p99('pass-through', true), (a, b) => a - b),
      15,
      true,
      ' ms',
    ],
    [
      '200 KB: CPU of a request, of the pass-through’s',
      over(cpu('ours', '200 KB'), cpu('pass-through', '200 KB'), ratio),
      5,
      true,
    ],
    [
      '200 KB, stream: the same',
      over(cpu('ours', '200 KB', true), cpu('pass-through', '200 KB', true), ratio),
      5,
      true,
    ],
    [
      '200 KB that repeat an earlier turn: the same',
      over(cpu('ours', '200 KB again'), cpu('pass-through', '200 KB again'), ratio),
      5,
      true,
    ],
  ]
  return goals.flatMap(([what, value, limit, atMost, unit = '×']) => {
    if (value === null) return []
    const reached = atMost ? value <= limit : value >= limit
    return [
      `${reached ? 'reached    ' : 'NOT REACHED'} ${what}: ${rounded(value)}${unit} (${atMost ? 'at most' : 'at least'} ${limit}${unit})`,
    ]
  })
}

/** In Markdown: what a busy and a steady case of one kind of request gave, side by side. */
export const tableOf = (rows: readonly Row[]): string => {
  const text = (value: number | null | undefined): string =>
    value === null || value === undefined
      ? ''
      : value >= 1000
        ? Math.round(value).toLocaleString('en-US')
        : String(value)
  const pair = (a: number | null | undefined, b: number | null | undefined): string =>
    a === null || a === undefined ? '' : `${text(a)} / ${text(b)}`
  const lines = grouped(rows, (row) => `${row.case.replace(/, (busy|steady)$/, '')}\n${row.who}`).map((both) => {
    const [busy, steady] = ['busy', 'steady'].map((kind) => both.find((row) => row.case.endsWith(kind)))
    const { who, megabytes } = both[0]!
    const own = who !== 'direct'
    return [
      both[0]!.case.replace(/, (busy|steady)$/, ''),
      who === 'ours' ? '**ours**' : who,
      own ? text(busy?.cpuMs) : '',
      own ? text(busy?.ofFloor) : '',
      text(busy?.perSecond),
      pair(steady?.p50, steady?.p99),
      pair(steady?.addedP50, steady?.addedP99),
      pair(steady?.firstP50, steady?.firstP99),
      own ? text(megabytes) : '',
    ]
  })
  const heads = [
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
  return [heads, heads.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}
