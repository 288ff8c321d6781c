/**
 * A line chart as SVG. It is one tab stop: arrow keys move along its points, whose values are read out, and a table of
 * them is below. Series differ by shape as well as by colour.
 */
import { useState } from 'preact/hooks'
import { number } from '../format.ts'
import { html, type View } from '../html.ts'
import { Table } from './table.ts'

/** `y` null: no value there. `low`, `high`: an interval. */
export type Point = { x: number; y: number | null; low?: number | null; high?: number | null }
export type Series = { name: string; points: readonly Point[] }
/** A vertical line: a rollback, a rejection, a freeze. */
export type Mark = { x: number; label: string; kind: 'move' | 'reject' | 'freeze' }

type ChartProps = {
  title: string
  /** What the figure means, in one sentence. */
  about: string
  series: readonly Series[]
  marks?: readonly Mark[]
  xText: (x: number) => string
  yText: (y: number) => string
  xName: string
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 220, 56, 12, 12, 28]

const extent = (values: readonly number[]): [number, number] => {
  const [low, high] = [Math.min(...values), Math.max(...values)]
  if (!Number.isFinite(low)) return [0, 1]
  const pad = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.06
  return [low - pad, high + pad]
}

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
const tickText = (y: number, all: readonly number[]): string => {
  const step = all.length > 1 ? all[1]! - all[0]! : Math.abs(y) || 1
  return number(y, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)))
}

const MARKS: Readonly<Record<Mark['kind'], string>> = {
  move: 'head moved by a person',
  reject: 'update rejected',
  freeze: 'learning frozen',
}

const shape = (index: number, x: number, y: number): View =>
  index % 2 === 0
    ? html`<circle class=${`s${index}`} cx=${x} cy=${y} r="3" />`
    : html`<rect class=${`s${index}`} x=${x - 2.7} y=${y - 2.7} width="5.4" height="5.4" />`

export const Chart = ({ title, about, series, marks = [], xText, yText, xName }: ChartProps): View => {
  const [at, setAt] = useState<number | null>(null)
  const [listed, setListed] = useState(false)
  const xs = [...new Set(series.flatMap(({ points }) => points.filter(({ y }) => y !== null).map(({ x }) => x)))].sort(
    (a, b) => a - b,
  )
  if (xs.length === 0)
    return html`<figure class="chart"><figcaption><strong>${title}</strong> <span
      class="quiet">${about}</span></figcaption><p class="note quiet">No values yet.</p></figure>`
  const [x0, x1] = xs.length === 1 ? [xs[0]! - 1, xs[0]! + 1] : [xs[0]!, xs.at(-1)!]
  const [y0, y1] = extent(
    series.flatMap(({ points }) =>
      points.flatMap(({ y, low, high }) => [y, low, high].filter((one) => typeof one === 'number')),
    ),
  )
  const px = (x: number): number => LEFT + ((x - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT)
  const py = (y: number): number => HEIGHT - BOTTOM - ((y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM)
  const path = (points: readonly Point[]): string => {
    let started = false
    return points
      .map(({ x, y }) => {
        if (y === null) {
          started = false
          return ''
        }
        const step = `${started ? 'L' : 'M'}${px(x).toFixed(1)} ${py(y).toFixed(1)}`
        started = true
        return step
      })
      .join('')
  }
  const valuesAt = (x: number): string =>
    series
      .map(({ name, points }) => {
        const y = points.find((point) => point.x === x)?.y
        return y === null || y === undefined ? null : `${name} ${yText(y)}`
      })
      .filter((one) => one !== null)
      .join(', ')
  const selected = at === null ? null : xs[Math.min(at, xs.length - 1)]!
  const said = selected === null ? '' : `${xText(selected)}: ${valuesAt(selected)}`
  const move = (event: KeyboardEvent): void => {
    const last = xs.length - 1
    const next = { ArrowLeft: (at ?? last + 1) - 1, ArrowRight: (at ?? -1) + 1, Home: 0, End: last }[event.key]
    if (next === undefined) return
    event.preventDefault()
    setAt(Math.max(0, Math.min(last, next)))
  }
  const point = (event: PointerEvent): void => {
    const box = (event.currentTarget as SVGElement).getBoundingClientRect()
    const x = x0 + ((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT)) * (x1 - x0)
    const nearest = xs.reduce((best, one, i) => (Math.abs(one - x) < Math.abs(xs[best]! - x) ? i : best), 0)
    setAt(nearest)
  }
  const dots = xs.length <= 80
  const shown = marks.filter(({ x }) => x >= x0 && x <= x1)
  const kinds = [...new Set(shown.map(({ kind }) => kind))]
  const lines = ticks(y0, y1)
  return html`
    <figure class="chart">
      <figcaption>
        <strong>${title}</strong> <span class="quiet">${about}</span>
        ${
          series.length > 1 || kinds.length > 0
            ? html`<span class="legend">
                ${
                  series.length > 1
                    ? series.map(
                        ({ name }, i) => html`<span><svg width="14" height="10"
                  aria-hidden="true">${shape(i, 7, 5)}</svg>${name}</span>`,
                      )
                    : null
                }
                ${kinds.map(
                  (kind) => html`<span><svg width="14" height="10" aria-hidden="true"><g
                  class=${`mark ${kind}`}><line x1="7" x2="7" y1="0" y2="10" /></g></svg>${MARKS[kind]}</span>`,
                )}
              </span>`
            : null
        }
      </figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} tabindex="0" role="img"
        aria-label=${`${title}. ${about} Arrow keys read its values.`}
        onKeyDown=${move} onPointerMove=${point} onPointerLeave=${() => setAt(null)} onBlur=${() => setAt(null)}>
        ${lines.map(
          (y) => html`<g><line class="grid" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${py(y)} y2=${py(y)} /><text
          class="tick" x=${LEFT - 6} y=${py(y) + 4} text-anchor="end">${tickText(y, lines)}</text></g>`,
        )}
        ${[xs[0]!, xs[Math.floor(xs.length / 2)]!, xs.at(-1)!].filter((x, i, all) => all.indexOf(x) === i).map((x, i, all) => html`<text class="tick" x=${px(x)} y=${HEIGHT - 8} text-anchor=${all.length === 1 || (i === 1 && all.length === 3) ? 'middle' : i === 0 ? 'start' : 'end'}>${xText(x)}</text>`)}
        ${shown.map(
          ({ x, label, kind }) => html`<g class=${`mark ${kind}`}><line x1=${px(x)} x2=${px(x)} y1=${TOP}
          y2=${HEIGHT - BOTTOM} /><title>${label}</title></g>`,
        )}
        ${series.map(
          ({ points }, i) => html`<g>
          ${points.filter(({ low, high }) => typeof low === 'number' && typeof high === 'number').map(({ x, low, high }) => html`<line class=${`interval s${i}`} x1=${px(x)} x2=${px(x)} y1=${py(low as number)} y2=${py(high as number)} />`)}
          <path class=${`line s${i}`} d=${path(points)} />
          ${dots ? points.filter(({ y }) => y !== null).map(({ x, y }) => shape(i, px(x), py(y as number))) : null}
        </g>`,
        )}
        ${
          selected === null
            ? null
            : html`<line class="cursor" x1=${px(selected)} x2=${px(selected)} y1=${TOP}
          y2=${HEIGHT - BOTTOM} />`
        }
      </svg>
      <p class="said" aria-live="polite">${said}</p>
      <details onToggle=${(event: Event) => setListed((event.currentTarget as HTMLDetailsElement).open)}>
        <summary>Values as a table</summary>
        ${
          listed
            ? html`<${Table} caption=${title} rows=${xs} columns=${[
                { name: xName, of: (x: number) => xText(x) },
                ...series.map(({ name, points }) => ({
                  name,
                  numeric: true,
                  of: (x: number) => {
                    const y = points.find((one) => one.x === x)?.y
                    return y === null || y === undefined ? '–' : yText(y)
                  },
                })),
              ]} />`
            : null
        }
      </details>
    </figure>
  `
}
