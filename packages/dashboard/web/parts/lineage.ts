/**
 * The versions of the line as a timeline: branches one below the other, the head, rejected updates, moves of the head.
 */
import { useEffect, useRef } from 'preact/hooks'
import { plainName } from '../format.ts'
import { html, type View } from '../html.ts'
import type { Lineage, VersionRow } from '../rows.ts'
import { GATE, lineageEvents, type LineageEvent, type LineageEventKind } from './lineage-events.ts'

type Placed = { row: VersionRow; x: number; lane: number }

const [STEP, LANE, TOP, PAD, MOST] = [46, 44, 46, 26, 120]

/**
 * A version stands one step after the version before it. It stays in its parent's lane if it is the parent's only child
 * or an ancestor of the head, and else gets a lane of its own below.
 */
export const placed = (rows: readonly VersionRow[]): Placed[] => {
  const sorted = rows.toSorted((a, b) => a.version - b.version)
  const byVersion = new Map(sorted.map((row) => [row.version, row]))
  const main = new Set<number>()
  for (
    let row = sorted.find(({ status }) => status === 'serving');
    row;
    row = row.parent === null ? undefined : byVersion.get(row.parent)
  )
    main.add(row.version)
  const lanes = new Map<number, number>()
  let last = 0
  return sorted.map((row, x) => {
    const parent = row.parent === null ? undefined : lanes.get(row.parent)
    const own = main.has(row.version)
      ? 0
      : parent !== undefined &&
          parent > 0 &&
          !sorted.some((other) => other.parent === row.parent && other.version < row.version)
        ? parent
        : (last += 1)
    lanes.set(row.version, own)
    return { row, x, lane: own }
  })
}

/** Signs below a version, of what happened while it was the head. */
const SIGNS: Readonly<Partial<Record<LineageEventKind, string>>> = {
  rejected: '✕',
  refused: '✕',
  promotion: '↑',
  freeze: '■',
  thaw: '▶',
}

const signsOf = (events: readonly LineageEvent[]): string =>
  Object.entries(Object.groupBy(events, ({ kind }) => SIGNS[kind]!))
    .map(([sign, all]) => `${sign}${all!.length > 1 ? all!.length : ''}`)
    .join(' ')

const textOf = ({ said, who, why }: LineageEvent): string =>
  `${said}${said.includes(who) ? '' : `, ${who}`}${why === null ? '' : `: ${why}`}`

type Point = readonly [x: number, y: number]
/** From a version to one that grew from it. */
const edge = ([x, y]: Point, [toX, toY]: Point): string => `M${x} ${y}C${x + 20} ${y} ${toX - 20} ${toY} ${toX} ${toY}`
/** Above the versions, from one to another. */
const arc = ([x, y]: Point, [toX, toY]: Point): string => `M${x} ${y}C${x} ${TOP - 40} ${toX} ${TOP - 40} ${toX} ${toY}`

export const LineageChart = ({ lineage }: { lineage: Lineage }): View => {
  const { versions, moves } = lineage
  const newest = versions.toSorted((a, b) => b.version - a.version).slice(0, MOST)
  const nodes = placed(newest)
  const at = new Map(nodes.map((node) => [node.row.version, node]))
  const px = (x: number): number => PAD + x * STEP
  const py = (lane: number): number => TOP + lane * LANE
  const width = px(nodes.length - 1) + PAD
  const scrolled = useRef<HTMLDivElement>(null)
  // The newest versions are at its end.
  useEffect(() => scrolled.current?.scrollTo({ left: width }), [width])
  const height = py(Math.max(0, ...nodes.map(({ lane }) => lane))) + 40
  const happened = Map.groupBy(
    lineageEvents(lineage).filter(({ kind }) => SIGNS[kind] !== undefined),
    ({ version }) => version,
  )
  const rollbacks = moves.filter(
    ({ from_version, to_version, who }) =>
      from_version !== null && who !== GATE && at.has(from_version) && at.has(to_version),
  )
  return html`
    <figure class="chart lineage">
      <figcaption><strong>Lineage</strong> <span class="quiet">Each circle is a version, the full one serves; a
        lower lane was left behind by a rollback. Dashed: a person moved the head. While a version was the head: ✕ the
        gate rejected updates, ■ learning was frozen, ▶ resumed, ↑ a branch was promoted.${
          versions.length > MOST ? ` The newest ${MOST}.` : ''
        }</span></figcaption>
      <div class="scroll" tabindex="0" ref=${scrolled}
        role="region" aria-label="Lineage of the versions; the table below has the same">
        <svg width=${width} height=${height} aria-hidden="true">
          ${nodes.map(({ row, x, lane }) => {
            const parent = row.parent === null ? undefined : at.get(row.parent)
            return parent
              ? html`<path class=${lane === 0 ? 'edge' : 'edge left'}
                d=${edge([px(parent.x), py(parent.lane)], [px(x), py(lane)])} />`
              : null
          })}
          ${rollbacks.map(({ from_version, to_version, who, why }) => {
            const [from, to] = [at.get(from_version!)!, at.get(to_version)!]
            const path = arc([px(from.x), py(from.lane) - 12], [px(to.x), py(to.lane) - 12])
            const said = `${plainName(who)}: ${from_version} → ${to_version} ${why}`
            return html`<path class="move" d=${path}><title>${said}</title></path>`
          })}
          ${nodes.map(
            ({ row, x, lane }) => html`
            <a href=${`#/versions/${row.version}`} tabindex="-1"><circle class=${`node ${row.status}`} cx=${px(x)}
              cy=${py(lane)} r="11" /><text class="node-label" x=${px(x)} y=${py(lane) + 4}
                text-anchor="middle">${row.version}</text><title>Version ${row.version}: ${row.status}</title></a>
            ${
              happened.has(row.version)
                ? html`<text class="signs" x=${px(x)} y=${py(lane) + 28}
                  text-anchor="middle">${signsOf(happened.get(row.version)!)}<title>${happened
                    .get(row.version)!
                    .map(textOf)
                    .join('\n')}</title></text>`
                : null
            }
          `,
          )}
        </svg>
      </div>
    </figure>
  `
}
