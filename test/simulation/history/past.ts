/** The history at the positions of a process: the sessions, scores and chains of the records before them. */
import type { EpisodeBegun, EpisodeEnded } from '@instar/events'
import { slot, type Ends } from '../sim-log.ts'
import type { Left } from './decision.ts'
import { lineOf, trainingOf, type Line, type Training } from './chains.ts'
import type { Fact, Facts, Followed } from './facts.ts'
import { beginsOf, endsOf, scoresOf, type Score } from './scores.ts'
import { sessionOf, type Session, type Turn } from './session.ts'
import { toldOf } from './told-session.ts'

/** Results for the same records are computed once. */
export class History {
  readonly facts: Facts
  readonly #known = new Map<string, unknown>()

  constructor(facts: Facts) {
    this.facts = facts
  }

  /** Without `seen` all of it. `left`: as in `Decided`. */
  past(seen?: Ends, left: Left | null = null): Past {
    return left ? new PastOfScores(this, seen, left.policy, left.ends) : new Past(this, seen)
  }

  once<R>(what: string, make: () => R): R {
    if (!this.#known.has(what)) this.#known.set(what, make())
    return this.#known.get(what) as R
  }
}

export class Past {
  readonly #history: History
  readonly #seen: Ends | undefined

  constructor(history: History, seen: Ends | undefined) {
    this.#history = history
    this.#seen = seen
  }

  session(name: string): Session {
    return this.#of('turns', name, (facts) => sessionOf(name, facts))
  }
  scores(policy: string): Map<string, Score> {
    return this.#of('scores', policy, scoresOf)
  }
  ends(policy: string): Map<string, Fact<EpisodeEnded>> {
    return this.#of('scores', policy, endsOf, 'ends')
  }
  begins(policy: string): Map<string, Fact<EpisodeBegun>> {
    return this.#of('scores', policy, beginsOf, 'begins')
  }
  training(policy: string): Training {
    return this.#of('updates', policy, trainingOf)
  }
  line(policy: string): Line {
    return this.#of('weights', policy, lineOf)
  }

  sessions(): [string, Session][] {
    return this.#history.facts.keys('turns').map((name) => [name, this.session(name)])
  }

  turn(id: string): Turn | undefined {
    return this.session(id.slice(0, id.lastIndexOf('.'))).turns.find(({ event }) => event.turn === id)
  }

  turns(): Turn[] {
    return this.sessions().flatMap(([, { turns }]) => turns)
  }

  #of<T extends Followed, R>(
    topic: T,
    key: string,
    make: (facts: ReturnType<Facts['of']> & ReturnType<typeof this.facts<T>>) => R,
    what: string = topic,
  ): R {
    const facts = this.facts(topic, key)
    return this.#history.once(`${what} ${key} ${facts.length}`, () => make(facts as never))
  }

  facts<T extends Followed>(topic: T, key: string) {
    return this.#history.facts.of(topic, key, this.#seen)
  }
}

/** As a trainer knows it that does not read `turns` (told-session.ts). */
class PastOfScores extends Past {
  readonly #history: History
  readonly #policy: string
  readonly #left: Ends

  /** `left`: what had been read when `turns` was left. */
  constructor(history: History, seen: Ends | undefined, policy: string, left: Ends) {
    super(history, seen)
    this.#history = history
    this.#policy = policy
    this.#left = left
  }

  override session(name: string): Session {
    const before = this.#history.past(this.#left)
    const all = this.facts('scores', this.#policy)
    const from = all[0] ? (this.#left.get(slot('scores', all[0].partition)) ?? 0) : 0
    const turns = before.facts('turns', name).length
    return this.#history.once(`scores of ${name} ${turns} ${from} ${all.length}`, () =>
      toldOf(
        before.session(name),
        this.#history.past().session(name),
        all.filter(({ event }) => event.session === name),
        from,
        this.scores(this.#policy),
      ),
    )
  }
}
