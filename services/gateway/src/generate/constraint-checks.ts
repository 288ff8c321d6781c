/**
 * Checks of constraints by the engine, which compiles them: up to a second of the model's thread each, while no answer goes on.
 * They run one at a time, for a part of the time, and not at all once their client has left.
 */
import type { Constraint, ServingEngine } from '@instar/engine/port'
import { LruMap } from '@instar/events'
import { createHash } from 'node:crypto'
import { Paced } from '../session/paced.ts'

/** Constraints that are known to be supported. An engine keeps as many compiled. */
const MOST_KNOWN = 16
/** Checks that wait, with the one that runs. */
export const MOST_CHECKS = 64

export class ConstraintChecks {
  private readonly paced: Paced
  /** Digests. */
  private readonly known = new LruMap<string, true>()

  constructor(monotonic: () => number) {
    this.paced = new Paced(monotonic, MOST_CHECKS, 'constraints wait to be compiled')
  }

  /** Throws `bad_request` for a constraint that the engine does not support, and as Paced. `key`: the API key, or null. */
  async check(
    engine: Pick<ServingEngine, 'check'>,
    constraint: Constraint,
    { key, gone }: { key: string | null; gone: AbortSignal },
  ): Promise<void> {
    const digest = createHash('sha256').update(JSON.stringify(constraint)).digest('base64')
    if (!this.known.has(digest)) await this.paced.run(key, gone, () => engine.check!(constraint))
    this.known.set(digest, true)
    if (this.known.size > MOST_KNOWN) this.known.delete(this.known.oldest()!)
  }
}
