/**
 * Sessions with open turns, by when they were last heard: the quietest is found without a walk over the rest. A
 * session is pushed once and looked at again when its time has come, whatever was said in it meanwhile.
 */
import type { Table } from '@instar/events'

type SessionTime = { session: string; at: number }
/** Session → time of its last record, as far as this process has read. */
type Watched = Table<string, number> & Iterable<readonly [string, number]> & { readonly size: number }

export type Idle = {
  watched: Watched
  /** A binary heap over `watched`, earliest first; it may name sessions that are no longer watched. */
  heap: SessionTime[]
  /** Quiet ones that are others' to close. */
  parked: Set<string>
}

/** Entries of the heap that may be out of date before it is built anew. */
const SLACK = 1024

export const initialIdle = (watched: Watched = new Map()): Idle => {
  const idle: Idle = { watched, heap: [], parked: new Set() }
  rebuild(idle)
  return idle
}

/** All that is watched is looked at again. */
export const rebuild = (idle: Idle): void => {
  idle.parked.clear()
  idle.heap = [...idle.watched].map(([session, at]) => ({ session, at })).sort((a, b) => a.at - b.at)
}

export const watch = (idle: Idle, session: string, at: number): void => {
  if (idle.watched.has(session)) return
  idle.watched.set(session, at)
  push(idle, { session, at })
}

/** Looks at it again when its time has come. */
export const watchAgain = (idle: Idle, session: string, at: number): void => {
  idle.watched.set(session, at)
  push(idle, { session, at })
}

export const unwatch = (idle: Idle, session: string): void => {
  idle.watched.delete(session)
  idle.parked.delete(session)
}

export const park = (idle: Idle, session: string): void => {
  idle.parked.add(session)
}

export const unpark = (idle: Idle): void => {
  for (const session of idle.parked) push(idle, { session, at: idle.watched.get(session) ?? 0 })
  idle.parked.clear()
}

/** When the next one has its time; undefined with none. */
export const earliest = (idle: Idle): number | undefined => idle.heap[0]?.at

export const pop = (idle: Idle): string | undefined => {
  const { heap } = idle
  const first = heap[0]
  const last = heap.pop()
  if (first && last && heap.length > 0) sink(heap, last)
  return first?.session
}

const push = (idle: Idle, heard: SessionTime): void => {
  // Every caller has put `heard` among the watched, and what was parked is looked at once more.
  if (idle.heap.length > 2 * idle.watched.size + SLACK) return rebuild(idle)
  const { heap } = idle
  let at = heap.length
  heap.push(heard)
  while (at > 0) {
    const parent = (at - 1) >> 1
    if (heap[parent]!.at <= heard.at) break
    heap[at] = heap[parent]!
    at = parent
  }
  heap[at] = heard
}

/** From the root down to where it belongs. */
const sink = (heap: SessionTime[], heard: SessionTime): void => {
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child += 1
    if (heap[child]!.at >= heard.at) break
    heap[at] = heap[child]!
    at = child
  }
  heap[at] = heard
}
