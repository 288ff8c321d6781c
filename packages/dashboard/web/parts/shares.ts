/**
 * How a whole is divided, at each value of x: bars of parts one above the other, in the order of the legend from below.
 */
import { useMemo } from 'preact/hooks'
import { count, percent } from '../format.ts'
import { html, type View } from '../html.ts'
import { NoPlot, Plot, type Mark, type Scale } from './plot.ts'

/** `of`: the whole, in turns; 0: no bar. `parts`: turns by name. What they lack of the whole stays empty. */
export type Share = { x: number; of: number; parts: Readonly<Record<string, number>> }

type SharesProps = {
  title: string
  about: string
  shares: readonly Share[]
  /** Names of the parts in their order, as codes; absent: the most frequent first. */
  names?: readonly string[]
  nameText: (name: string) => string
  /** The parts go from bad to good. */
  ordered?: boolean
  /** The axis ends at the largest bar; else at the whole. */
  fitted?: boolean
  marks?: readonly Mark[]
  xText: (x: number) => string
  xName: string
}

const NONE: readonly Mark[] = []
/** Parts with a look of their own; the others are one. */
const LOOKS = 5
const OTHERS = 'others'

type Parted = { name: string; turns: Map<number, number> }

const partsOf = (shares: readonly Share[], names: readonly string[] | undefined): Parted[] => {
  const sums = new Map<string, number>()
  for (const { parts } of shares)
    for (const [name, turns] of Object.entries(parts)) sums.set(name, (sums.get(name) ?? 0) + turns)
  const all = names ?? [...sums].toSorted((a, b) => b[1] - a[1]).map(([name]) => name)
  const own = all.length <= LOOKS ? all : all.slice(0, LOOKS - 1)
  const rest = all.slice(own.length)
  const turns = (of: readonly string[]): Map<number, number> =>
    new Map(shares.map(({ x, parts }) => [x, of.reduce((sum, name) => sum + (parts[name] ?? 0), 0)]))
  return [
    ...own.map((name) => ({ name, turns: turns([name]) })),
    ...(rest.length > 0 ? [{ name: OTHERS, turns: turns(rest) }] : []),
  ]
}

/** One path for all bars of a part. `below`: the height up to which the parts before reach; it is moved up. */
const barsOf = (shares: readonly Share[], { turns }: Parted, below: Map<number, number>, scale: Scale): string => {
  const width = Math.min(28, Math.max(1, scale.band * 0.8))
  const bars: string[] = []
  for (const { x, of } of shares) {
    const own = of === 0 ? 0 : (turns.get(x) ?? 0) / of
    if (own === 0) continue
    const from = below.get(x) ?? 0
    below.set(x, from + own)
    const [top, bottom] = [scale.py(from + own), scale.py(from)]
    const left = scale.px(x) - width / 2
    bars.push(`M${left.toFixed(1)} ${bottom.toFixed(1)}h${width.toFixed(1)}V${top.toFixed(1)}h${(-width).toFixed(1)}z`)
  }
  return bars.join('')
}

export const Shares = (props: SharesProps): View => {
  const { title, about, shares, names, nameText, ordered = false, fitted = false, marks = NONE, xText, xName } = props
  const { parts, xs, of, range } = useMemo(() => {
    const shown = shares.filter((one) => one.of > 0)
    const sum = (one: Share): number => Object.values(one.parts).reduce((all, turns) => all + turns, 0) / one.of
    const most = fitted ? Math.min(1, Math.max(0.05, ...shown.map(sum)) * 1.06) : 1
    return {
      parts: partsOf(shown, names),
      xs: shown.map(({ x }) => x),
      of: new Map(shown.map((one) => [one.x, one.of])),
      range: [0, most] as const,
    }
  }, [shares])
  const look = (i: number): string => `part ${ordered ? 'd' : 'p'}${i}`
  const draw = useMemo(
    () => (scale: Scale) => {
      const below = new Map<number, number>()
      return html`<g class="parts">${parts.map(
        (part, i) => html`<path class=${look(i)} d=${barsOf(shares, part, below, scale)} />`,
      )}</g>`
    },
    [parts],
  )
  if (xs.length === 0) return html`<${NoPlot} title=${title} about=${about} />`
  if (parts.length === 0) return html`<${NoPlot} title=${title} about=${about} why="None." />`
  const label = (name: string): string => (name === OTHERS ? OTHERS : nameText(name))
  const share = (part: Parted, x: number): number => (part.turns.get(x) ?? 0) / (of.get(x) ?? 1)
  return html`<${Plot} title=${title} about=${about} xs=${xs} range=${range} bars=${true} marks=${marks}
    xText=${xText} xName=${xName}
    yTick=${percent} draw=${draw}
    legend=${parts.map(({ name }, i) => ({
      name: label(name),
      sign: html`<svg width="14" height="12" aria-hidden="true"><rect class=${look(i)} width="12" height="12" /></svg>`,
    }))}
    valuesAt=${(x: number) =>
      `${
        parts
          .filter((part) => share(part, x) > 0)
          .map((part) => `${label(part.name)} ${percent(share(part, x))}`)
          .join(', ') || 'none'
      } of ${count(of.get(x))} turns`}
    columns=${[
      ...parts.map((part) => ({ name: label(part.name), numeric: true, of: (x: number) => percent(share(part, x)) })),
      { name: 'of turns', numeric: true, of: (x: number) => count(of.get(x)) },
    ]} />`
}
