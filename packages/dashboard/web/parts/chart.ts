/** A line chart. Series differ by shape as well as by colour. */
import { useMemo } from 'preact/hooks'
import { html, type View } from '../html.ts'
import { NoPlot, Plot, tickText, type Mark, type Scale } from './plot.ts'

/** `y` null: no value there. `low`, `high`: an interval. */
export type Point = { x: number; y: number | null; low?: number | null; high?: number | null }
export type Series = { name: string; points: readonly Point[] }

/** Drawn again only with another `series` or other `marks`, which the page keeps while it shows the same data. */
type ChartProps = {
  title: string
  about: string
  series: readonly Series[]
  marks?: readonly Mark[]
  xText: (x: number) => string
  yText: (y: number) => string
  /** Absent: as many digits as neighbouring ticks need. */
  yTick?: (y: number, all: readonly number[]) => string
  xName: string
  /** Each value holds until the next. */
  steps?: boolean
}

const NONE: readonly Mark[] = []
/** Points that are drawn one by one. */
const DOTS = 80

const extent = (values: readonly number[]): [number, number] => {
  const [low, high] = [Math.min(...values), Math.max(...values)]
  if (!Number.isFinite(low)) return [0, 1]
  const pad = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.06
  return [low - pad, high + pad]
}

/** Series that have a look of their own. */
export const SERIES = 5
/** Shapes around 0, 0: square, triangle, diamond, cross. */
const SHAPES = ['M-2.7 -2.7h5.4v5.4h-5.4z', 'M0 -4l3.6 6.6h-7.2z', 'M0 -4l4 4l-4 4l-4 -4z', 'M-3 -3l6 6M3 -3l-6 6']

const shape = (index: number, x: number, y: number): View =>
  index === 0
    ? html`<circle class="dot s0" cx=${x} cy=${y} r="3" />`
    : html`<path class=${`dot s${index}`} d=${SHAPES[index - 1]} transform=${`translate(${x} ${y})`} />`

/** `steps`: each value holds until the next. */
export const lineOf = (points: readonly Point[], steps: boolean, { px, py }: Scale): string => {
  let started = false
  return points
    .map(({ x, y }) => {
      if (y === null) {
        const held = started && steps ? `H${px(x).toFixed(1)}` : ''
        started = false
        return held
      }
      const [left, top] = [px(x).toFixed(1), py(y).toFixed(1)]
      const part = !started ? `M${left} ${top}` : steps ? `H${left}V${top}` : `L${left} ${top}`
      started = true
      return part
    })
    .join('')
}

/** One path for all intervals. */
const intervalsOf = (points: readonly Point[], { px, py }: Scale): string =>
  points
    .filter(({ low, high }) => typeof low === 'number' && typeof high === 'number')
    .map(({ x, low, high }) => `M${px(x).toFixed(1)} ${py(low as number).toFixed(1)}V${py(high as number).toFixed(1)}`)
    .join('')

export const Chart = ({
  title,
  about,
  series,
  marks = NONE,
  xText,
  yText,
  yTick = tickText,
  xName,
  steps = false,
}: ChartProps): View => {
  const { xs, range, values } = useMemo(() => {
    const values = series.map(({ points }) => new Map(points.map(({ x, y }) => [x, y])))
    const points = series.flatMap((one) => one.points)
    return {
      values,
      xs: [...new Set(points.filter(({ y }) => y !== null).map(({ x }) => x))].sort((a, b) => a - b),
      range: extent(points.flatMap(({ y, low, high }) => [y, low, high].filter((one) => typeof one === 'number'))),
    }
  }, [series])
  const draw = useMemo(
    () =>
      (scale: Scale): View =>
        html`${series.map(
          ({ points }, i) => html`<g>
          <path class=${`interval s${i}`} d=${intervalsOf(points, scale)} />
          <path class=${`line s${i}`} d=${lineOf(points, steps, scale)} />
          ${
            xs.length > DOTS
              ? null
              : points.flatMap(({ x, y }) => (y === null ? [] : shape(i, scale.px(x), scale.py(y))))
          }
        </g>`,
        )}` as View,
    [series],
  )
  if (xs.length === 0) return html`<${NoPlot} title=${title} about=${about} />`
  const text = (i: number, x: number): string | null => {
    const y = values[i]!.get(x)
    return y === null || y === undefined ? null : yText(y)
  }
  return html`<${Plot} title=${title} about=${about} xs=${xs} range=${range} marks=${marks}
    xText=${xText} xName=${xName}
    yTick=${yTick} draw=${draw}
    legend=${
      series.length > 1
        ? series.map(({ name }, i) => ({
            name,
            sign: html`<svg width="14" height="10" aria-hidden="true">${shape(i, 7, 5)}</svg>`,
          }))
        : []
    }
    valuesAt=${(x: number) =>
      series
        .flatMap(({ name }, i) => {
          const shown = text(i, x)
          return shown === null ? [] : `${name} ${shown}`
        })
        .join(', ')}
    columns=${series.map(({ name }, i) => ({ name, numeric: true, of: (x: number) => text(i, x) ?? '–' }))} />`
}
