/** What answers must be, as the servers are told it; each is written once, as long as there is room. */
import type { Constraint, Model } from '@instar/policy'
import { keyOf } from '@instar/policy/constrain/constraint'
import { ebnfOf } from '@instar/policy/constrain/ebnf'

const MAX_KEPT = 16

export class Grammars {
  private readonly thinks: boolean
  /** The longest unused first. */
  private readonly kept = new Map<string, string>()

  constructor({ thinks = false }: Pick<Model, 'thinks'>) {
    this.thinks = thinks
  }

  /** Throws `bad_request` naming the field and the keyword that cannot be followed. */
  of(constraint: Constraint): string {
    const key = keyOf(constraint)
    const grammar = this.kept.get(key) ?? ebnfOf(constraint, this.thinks)
    this.kept.delete(key)
    this.kept.set(key, grammar)
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= MAX_KEPT) break
      this.kept.delete(oldest)
    }
    return grammar
  }
}
