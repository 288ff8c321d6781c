/** What followed a turn: the next state, by which a judge scores it. */
import { useEffect, useState } from 'preact/hooks'
import { shortId } from '../format.ts'
import { html, type View } from '../html.ts'
import type { TurnRow } from '../rows.ts'

/** Who speaks first in the request of each turn that a page has read; a turn is shown before its successor is read. */
export class Beginnings {
  private readonly roles = new Map<string, string>()
  private readonly watchers = new Map<string, () => void>()

  tell(turn: string, role: string): void {
    this.roles.set(turn, role)
    this.watchers.get(turn)?.()
  }

  of(turn: string): string | undefined {
    return this.roles.get(turn)
  }

  /** `told` is called once the turn's request is known. Returns what ends that. */
  watch(turn: string, told: () => void): () => void {
    this.watchers.set(turn, told)
    return () => void this.watchers.delete(turn)
  }
}

const FOLLOWED: Readonly<Record<string, string>> = {
  user: 'the user’s message below',
  tool: 'the tool’s result below',
}

/** In words. `role`: who speaks first in what followed; undefined: it was not read. */
export const nextState = (
  { next_state, next_turn_id }: Pick<TurnRow, 'next_state' | 'next_turn_id'>,
  role: string | undefined,
): string => {
  if (next_state === 'open') return 'none yet'
  if (next_state === 'none' || next_turn_id === null) return 'none: the session ended'
  return role === undefined
    ? `the request of turn ${shortId(next_turn_id)}`
    : (FOLLOWED[role] ?? `the message of role ${role} below`)
}

export const NextState = ({ turn, beginnings }: { turn: TurnRow; beginnings: Beginnings }): View | null => {
  const [, again] = useState(0)
  const next = turn.next_turn_id
  useEffect(() => (next === null ? undefined : beginnings.watch(next, () => again((n) => n + 1))), [next])
  if (turn.kind === 'side' || (!turn.shown && turn.next_state !== 'turn')) return null
  const words = nextState(turn, next === null ? undefined : beginnings.of(next))
  return html`<div><dt>Next state</dt><dd>${
    next === null ? words : html`<a href=${`#/turns/${encodeURIComponent(next)}`}>${words}</a>`
  }</dd></div>`
}
