/**
 * The versions of the line as a timeline: lanes that rollbacks left, branches of replays, the head, rejected updates,
 * moves of the head. It is one tab stop: arrow keys move along its versions and branches, which are read out, and Enter
 * opens one.
 */
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { count, plainName, reward } from '../format.ts'
import { html, type View } from '../html.ts'
import { status } from '../reasons.ts'
import type { BranchRow, Lineage, RefusalRow, VersionRow } from '../rows.ts'
import { GATE, lineageEvents, type LineageEvent, type LineageEventKind } from './lineage-events.ts'
import { BRANCHES, branchStatus, placed, placedBranches, type Placed, type PlacedBranch } from './lineage-layout.ts'

const [STEP, LANE, TOP, PAD, MOST] = [46, 44, 46, 26, 120]
/** Characters of a branch's name in the drawing, and pixels of one. */
const [NAME, LETTER] = [28, 7]

/** Signs below a version, of what happened while it was the head. */
const SIGNS: Readonly<Partial<Record<LineageEventKind, string>>> = {
  rejected: '✕',
  refused: '✕',
  promotion: '↑',
  freeze: '■',
  thaw: '▶',
}

/** What is read out with a version. */
const TOLD: ReadonlySet<LineageEventKind> = new Set([
  'rejected',
  'refused',
  'promotion',
  'freeze',
  'thaw',
  'rollback',
  'failed',
])

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

const px = (x: number): number => PAD + x * STEP
const py = (lane: number): number => TOP + lane * LANE
/** Below the signs of the last lane of versions. */
const branchY = (lane: number): number => py(lane) + 12
const pointOf = ({ x, lane }: { x: number; lane: number }): Point => [px(x), py(lane)]

const shortName = (name: string): string => {
  const plain = plainName(name)
  return plain.length > NAME ? `${plain.slice(0, NAME - 1)}…` : plain
}

const Branch = ({
  of: { row, from, xs, lane },
  state,
  into,
}: {
  of: PlacedBranch
  state: string
  /** The version as which it was promoted. */
  into: Placed | undefined
}): View => {
  const [end, y] = [px(xs.at(-1)!), branchY(lane)]
  const said = `${shortName(row.name)}: ${state}`
  return html`<g class="branch">
    <path class="edge left" d=${edge(from ? pointOf(from) : [0, y], [px(xs[0]!), y])} />
    <path class="edge left" d=${`M${px(xs[0]!)} ${y}H${end}`} />
    ${into ? html`<path class="edge promoted" d=${edge([end, y], pointOf(into))} />` : null}
    ${xs.slice(0, -1).map((x) => html`<circle class="node" cx=${px(x)} cy=${y} r="4" />`)}
    <a href=${branchAddress(row)} tabindex="-1"><path class="node"
      d=${`M${end} ${y - 14}l14 14l-14 14l-14 -14z`} /><text class="node-label" x=${end} y=${y + 4}
        text-anchor="middle">${row.version}</text><title>Branch ${plainName(row.name)}: ${state}</title></a>
    <text class="branch-name" x=${end + 20} y=${y + 4}>${said}</text>
  </g>`
}

const branchAddress = ({ name }: BranchRow): string => `#/compare?a=${encodeURIComponent(`branch:${name}`)}`

/** What is read out of a version, and of a branch. */
const versionSaid = (row: VersionRow, events: readonly LineageEvent[]): string =>
  [
    `Version ${row.version}: ${status(row.status).toLowerCase()}`,
    row.reward === null ? 'no reward yet' : `reward ${reward(row.reward)}`,
    ...(row.parent === null ? [] : [`from version ${row.parent}`]),
    ...events.map(textOf),
  ].join('; ')
const branchSaid = ({ row, from }: PlacedBranch, refusals: readonly RefusalRow[]): string =>
  `Branch ${plainName(row.name)}: ${branchStatus(row, refusals)}; ${count(row.version)} ${
    row.version === 1 ? 'version' : 'versions'
  } from ${from ? `version ${from.row.version}` : 'a version that is not drawn'}`

/** A place that arrow keys reach. */
type Stop = { at: Point; address: string; said: string }

/** Everything that is drawn but the choice, made anew only with other data. */
const drawing = (all: Lineage) => {
  const { versions, moves, refusals } = all
  const nodes = placed(versions.toSorted((a, b) => b.version - a.version).slice(0, MOST))
  const ends = placedBranches(nodes, all.branches)
  const byVersion = new Map(nodes.map((node) => [node.row.version, node]))
  const told = Map.groupBy(
    lineageEvents(all).filter(({ kind }) => TOLD.has(kind)),
    ({ version }) => version,
  )
  const happened = new Map(
    [...told].flatMap(([version, events]): [number, LineageEvent[]][] => {
      const signed = events.filter(({ kind }) => SIGNS[kind] !== undefined)
      return signed.length > 0 ? [[version, signed]] : []
    }),
  )
  const rollbacks = moves.filter(
    ({ from_version, to_version, who }) =>
      from_version !== null && who !== GATE && byVersion.has(from_version) && byVersion.has(to_version),
  )
  const states = ends.map(({ row }) => branchStatus(row, refusals))
  const newest = px(nodes.length - 1) + PAD
  const width = Math.max(
    newest,
    ...ends.map(
      ({ row, xs }, i) => px(xs.at(-1)!) + 28 + LETTER * (shortName(row.name).length + 2 + states[i]!.length),
    ),
  )
  const height = Math.max(py(0), ...nodes.map(({ lane }) => py(lane)), ...ends.map(({ lane }) => branchY(lane))) + 40
  const stops: Stop[] = [
    ...nodes.map((node) => ({
      at: pointOf(node),
      address: `#/versions/${node.row.version}`,
      said: versionSaid(node.row, told.get(node.row.version) ?? []),
    })),
    ...ends.map((one) => ({
      at: [px(one.xs.at(-1)!), branchY(one.lane)] as const,
      address: branchAddress(one.row),
      said: branchSaid(one, refusals),
    })),
  ]
  const intoOf = ({ name, version }: BranchRow): Placed | undefined =>
    nodes.find(({ row }) => row.source_version === version && (row.source_policy ?? '').endsWith(`~${name}`))
  const view = html`
    ${nodes.map((node) => {
      const parent = node.row.parent === null ? undefined : byVersion.get(node.row.parent)
      return parent
        ? html`<path class=${node.lane === 0 ? 'edge' : 'edge left'} d=${edge(pointOf(parent), pointOf(node))} />`
        : null
    })}
    ${rollbacks.map(({ from_version, to_version, who, why }) => {
      const [from, to] = [byVersion.get(from_version!)!, byVersion.get(to_version)!]
      const path = arc([px(from.x), py(from.lane) - 12], [px(to.x), py(to.lane) - 12])
      const said = `${plainName(who)}: ${from_version} → ${to_version} ${why}`
      return html`<path class="move" d=${path}><title>${said}</title></path>`
    })}
    ${ends.map((one, i) => html`<${Branch} of=${one} state=${states[i]} into=${intoOf(one.row)} />`)}
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
  `
  return { nodes, stops, view, newest, width, height, all: Math.max(0, ...versions.map((row) => row.version + 1)) }
}

export const LineageChart = ({ lineage }: { lineage: Lineage }): View => {
  const { versions, branches } = lineage
  const [at, setAt] = useState<number | null>(null)
  const scrolled = useRef<HTMLDivElement>(null)
  const drawn = useMemo(() => drawing(lineage), [lineage])
  // The newest versions are at its end.
  useEffect(() => scrolled.current?.scrollTo({ left: drawn.newest }), [drawn.newest])
  const { stops } = drawn
  const selected = at === null ? null : (stops[Math.min(at, stops.length - 1)] ?? null)
  useEffect(() => {
    const box = scrolled.current
    if (!box || !selected) return
    const [x] = selected.at
    if (x - STEP < box.scrollLeft || x + STEP > box.scrollLeft + box.clientWidth)
      box.scrollTo({ left: x - box.clientWidth / 2 })
  }, [selected])
  const head = drawn.nodes.findIndex(({ row }) => row.status === 'serving')
  const move = (event: KeyboardEvent): void => {
    const last = stops.length - 1
    if (event.key === 'Enter' && selected) location.hash = selected.address
    const begin = head < 0 ? last : head
    const next = {
      ArrowLeft: at === null ? begin : at - 1,
      ArrowRight: at === null ? begin : at + 1,
      Home: 0,
      End: last,
    }[event.key]
    if (next === undefined) return
    event.preventDefault()
    setAt(Math.max(0, Math.min(last, next)))
  }
  return html`
    <figure class="chart lineage">
      <figcaption><strong>Lineage</strong> <span class="quiet">Each circle is a version, the full one serves; a
        lower lane was left behind by a rollback. Dashed: a person moved the head. While a version was the head: ✕ the
        gate rejected updates, ■ learning was frozen, ▶ resumed, ↑ a branch was promoted.${
          branches.length > 0
            ? ` Below, a lane that ends in a diamond is the branch of a replay${
                branches.length > BRANCHES ? `; the newest ${BRANCHES} of ${branches.length}` : ''
              }.`
            : ''
        }${versions.length > MOST ? ` The newest ${MOST} of ${count(drawn.all)} versions.` : ''}</span></figcaption>
      <div class="scroll" tabindex="0" ref=${scrolled} onKeyDown=${move} onBlur=${() => setAt(null)} role="region"
        aria-label="Lineage of the versions. Arrow keys read them, Enter opens one; the table below has the same">
        <svg width=${drawn.width} height=${drawn.height} aria-hidden="true">
          ${drawn.view}
          ${selected ? html`<circle class="chosen" cx=${selected.at[0]} cy=${selected.at[1]} r="17" />` : null}
        </svg>
      </div>
      <p class="said" aria-live="polite">${selected?.said ?? ''}</p>
    </figure>
  `
}
