/**
 * The frame of a chart as SVG: axes, marks of the lineage, and reading. It is one tab stop: arrow keys and the pointer
 * move along its values, which are read out, and a table of them is below. What is drawn within is drawn again only
 * with other data, not while it is read.
 */
import { useMemo, useState } from 'preact/hooks'
import { number } from '../format.ts'
import { html, type Children, type View } from '../html.ts'
import { Table, type Column } from './table.ts'

/** A vertical line at an event of the lineage. `label`: what happened, by whom. */
export type Mark = { x: number; label: string; kind: 'rollback' | 'rejected' | 'freeze' | 'thaw' | 'promotion' }

/** Places in the drawing. `xAt`: reverse of `px`. `band`: distance of the two nearest values. */
export type Scale = {
  px: (x: number) => number
  xAt: (place: number) => number
  py: (y: number) => number
  band: number
}

type PlotProps = {
  title: string
  /** What the figure means, in one sentence. */
  about: string
  /** Ascending. */
  xs: readonly number[]
  range: readonly [low: number, high: number]
  bars?: boolean
  marks: readonly Mark[]
  legend: readonly { name: string; sign: View }[]
  xText: (x: number) => string
  xName: string
  yTick: (y: number, all: readonly number[]) => string
  draw: (scale: Scale) => View
  valuesAt: (x: number) => string
  columns: readonly Column<number>[]
}

export const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 220, 56, 12, 16, 28]
/** Signs above the lines of marks; more of them would cover each other. */
const SIGNS = 40

/** Four to six round numbers within the range. */
export const ticks = (low: number, high: number): number[] => {
  const raw = (high - low) / 4
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw) ?? raw
  const first = Math.ceil(low / step)
  const last = Math.floor(high / step)
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step)
}

/** Neighbouring ticks differ in their last digit. */
export const tickText = (y: number, all: readonly number[]): string => {
  const step = all.length > 1 ? all[1]! - all[0]! : Math.abs(y) || 1
  return number(y, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))
}

const MARKS: Readonly<Record<Mark['kind'], { sign: string; name: string }>> = {
  rollback: { sign: '↩', name: 'head moved by a person' },
  promotion: { sign: '↑', name: 'promotion' },
  rejected: { sign: '✕', name: 'update rejected' },
  freeze: { sign: '■', name: 'learning frozen' },
  thaw: { sign: '▶', name: 'resumed' },
}
const KINDS = Object.keys(MARKS) as Mark['kind'][]

/** Index of the nearest of ascending values. */
const nearest = (xs: readonly number[], x: number): number => {
  let [low, high] = [0, xs.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if (xs[middle]! < x) low = middle + 1
    else high = middle
  }
  return low > 0 && x - xs[low - 1]! <= xs[low]! - x ? low - 1 : low
}

/** From the first value or mark to the last; with `bars`, half of a value's width stays free at both ends. */
const scaleOf = (xs: readonly number[], marks: readonly Mark[], [y0, y1]: PlotProps['range'], bars: boolean): Scale => {
  const all = [xs[0]!, xs.at(-1)!, ...marks.map(({ x }) => x)]
  const [low, high] = [Math.min(...all), Math.max(...all)]
  const [x0, x1] = low === high ? [low - 1, low + 1] : [low, high]
  const gap = Math.min(...xs.slice(1).map((x, i) => x - xs[i]!))
  const width = WIDTH - LEFT - RIGHT
  const band = Number.isFinite(gap) ? (gap / (x1 - x0 + (bars ? gap : 0))) * width : 40
  const [left, right] = bars ? [LEFT + band / 2, WIDTH - RIGHT - band / 2] : [LEFT, WIDTH - RIGHT]
  return {
    px: (x) => left + ((x - x0) / (x1 - x0)) * (right - left),
    xAt: (place) => x0 + ((place - left) / (right - left)) * (x1 - x0),
    py: (y) => HEIGHT - BOTTOM - ((y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM),
    band,
  }
}

const marksDrawn = (marks: readonly Mark[], { px }: Scale): View =>
  html`<g>${KINDS.map((kind) => {
    const own = marks.filter((mark) => mark.kind === kind)
    if (own.length === 0) return null
    const line = own.map(({ x }) => `M${px(x).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}`).join('')
    return html`<g class=${`mark ${kind}`}><path d=${line} />
    ${
      own.length > SIGNS
        ? null
        : own.map(({ x }) => html`<text x=${px(x)} y=${TOP - 4} text-anchor="middle">${MARKS[kind].sign}</text>`)
    }</g>`
  })}</g>`

const Axes = ({
  xs,
  range,
  scale: { px, py },
  xText,
  yTick,
}: Pick<PlotProps, 'xs' | 'range' | 'xText' | 'yTick'> & { scale: Scale }): View => {
  const lines = ticks(...range)
  const shown = [...new Set([xs[0]!, xs[Math.floor(xs.length / 2)]!, xs.at(-1)!])]
  const anchor = (i: number): string =>
    shown.length === 1 || (i === 1 && shown.length === 3) ? 'middle' : i === 0 ? 'start' : 'end'
  return html`<g>
    ${lines.map(
      (y) => html`<g><line class="grid" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${py(y)} y2=${py(y)} /><text
      class="tick" x=${LEFT - 6} y=${py(y) + 4} text-anchor="end">${yTick(y, lines)}</text></g>`,
    )}
    ${shown.map(
      (x, i) => html`<text class="tick" x=${px(x)} y=${HEIGHT - 8} text-anchor=${anchor(i)}>${xText(x)}</text>`,
    )}
  </g>`
}

export const Plot = (props: PlotProps): View => {
  const { title, about, xs, range, bars = false, marks, legend, xText, xName, yTick, draw, valuesAt, columns } = props
  const [at, setAt] = useState<number | null>(null)
  const [listed, setListed] = useState(false)
  const events = useMemo(() => Map.groupBy(marks, ({ x }) => nearest(xs, x)), [marks, xs])
  const scale = useMemo(() => scaleOf(xs, marks, range, bars), [xs, marks, ...range])
  const drawn = useMemo(
    () => html`<${Axes} xs=${xs} range=${range} scale=${scale} xText=${xText} yTick=${yTick} />
      ${draw(scale)}${marksDrawn(marks, scale)}`,
    [scale, marks, draw],
  )
  const selected = at === null ? null : xs[Math.min(at, xs.length - 1)]!
  const happened = at === null ? [] : (events.get(at) ?? [])
  const move = (event: KeyboardEvent): void => {
    const last = xs.length - 1
    const next = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[event.key]
    if (next === undefined) return
    event.preventDefault()
    setAt(Math.max(0, Math.min(last, next)))
  }
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect()
    setAt(nearest(xs, scale.xAt(((event.clientX - box.left) / box.width) * WIDTH)))
  }
  const signs: readonly { name: Children; sign: Children }[] = [
    ...legend,
    ...KINDS.filter((kind) => marks.some((mark) => mark.kind === kind)).map((kind) => ({
      name: MARKS[kind].name,
      sign: html`<span class=${`sign ${kind}`} aria-hidden="true">${MARKS[kind].sign}</span>`,
    })),
  ]
  return html`
    <figure class="chart">
      <figcaption>
        <strong>${title}</strong> <span class="quiet">${about}</span>
        ${
          signs.length === 0
            ? null
            : html`<span class="legend">${signs.map(({ name, sign }) => html`<span>${sign}${name}</span>`)}</span>`
        }
      </figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} tabindex="0" role="img"
        aria-label=${`${title}. ${about} Arrow keys read its values.`}
        onKeyDown=${move} onPointerMove=${point} onPointerLeave=${() => setAt(null)} onBlur=${() => setAt(null)}>
        ${drawn}
        ${
          selected === null
            ? null
            : html`<line class="cursor" x1=${scale.px(selected)} x2=${scale.px(selected)} y1=${TOP}
                y2=${HEIGHT - BOTTOM} />`
        }
      </svg>
      <p class="said" aria-live="polite">${selected === null ? '' : `${xText(selected)}: ${valuesAt(selected)}`}
        ${
          happened.length === 0
            ? null
            : html` <span class="quiet">${happened
                .map(({ kind, label }) => `${MARKS[kind].sign} ${label}`)
                .join('; ')}</span>`
        }</p>
      <details onToggle=${(event: Event) => setListed((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>Values as a table</summary>
        ${
          listed
            ? html`<${Table} caption=${title} rows=${xs}
                columns=${[{ name: xName, of: (x: number) => xText(x) }, ...columns]} />`
            : null
        }
      </details>
    </figure>
  `
}

/** A chart without values. */
export const NoPlot = ({
  title,
  about,
  why = 'No values yet.',
}: Pick<PlotProps, 'title' | 'about'> & { why?: string }): View =>
  html`<figure class="chart"><figcaption><strong>${title}</strong> <span
    class="quiet">${about}</span></figcaption><p class="note quiet">${why}</p></figure>`
