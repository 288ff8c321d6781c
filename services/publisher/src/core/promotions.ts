/**
 * Promotions that were asked for, one after another. Each is answered by the record of its own verdict. When a command moves
 * the head meanwhile, a promotion or a rollback, the others are refused: who asked for them saw another head. An update that
 * moves it is no command: the candidate is measured again.
 */
import { InstarError, type Asked, type Event, type VersionPublished, type VersionRejected } from '@instar/events'
import type { Measured } from './decide.ts'

export type Promotion = { accepted: true; version: number } | { accepted: false; reason: string }

type Verdict = VersionPublished | VersionRejected

/**
 * A promotion without a verdict. `appended`: the record of its verdict, which counts once it is read. `moved`: the command
 * that moved the head since the promotion was asked for, in words; null: none did.
 */
export type PromotionRequest = {
  branch: string
  asked: Asked
  settle: (promotion: Promotion) => void
  fail: (error: Error) => void
  measured: Measured | null
  appended: Verdict | null
  moved: string | null
}

const BRANCH_FAULTS = {
  unknown_branch: 'does not exist',
  empty_branch: 'has no version',
  unfinished_branch: 'is unfinished: its replay ended before the last batch',
} as const

export const promotionFault = ({ branch }: PromotionRequest, why: keyof typeof BRANCH_FAULTS): InstarError => {
  const name = branch.slice(branch.indexOf('~') + 1)
  return new InstarError(why, `branch ${name} ${BRANCH_FAULTS[why]}`, { branch: name })
}

export class Promotions {
  readonly #policy: string
  #waiting: PromotionRequest[] = []

  constructor(policy: string) {
    this.#policy = policy
  }

  first(): PromotionRequest | undefined {
    return this.#waiting[0]
  }

  add(branch: string, asked: Asked): Promise<Promotion> {
    return new Promise((settle, fail) => {
      this.#waiting.push({ branch, asked, settle, fail, measured: null, appended: null, moved: null })
    })
  }

  /** Throws `lost_race` if a command has moved the head since the promotion was asked for. */
  requireInForce({ moved }: PromotionRequest): void {
    if (moved !== null)
      throw new InstarError('lost_race', `The head of ${this.#policy} moved ${moved} while this promotion waited.`)
  }

  fail(request: PromotionRequest, error: Error): void {
    this.#waiting = this.#waiting.filter((one) => one !== request)
    request.fail(error)
  }

  /** A record of the policy's versions that counts. */
  read(event: Event): void {
    const [first] = this.#waiting
    if (isVerdict(event) && first && isSame(first.appended, event)) {
      this.#waiting.shift()
      first.settle(
        event.type === 'VersionPublished'
          ? { accepted: true, version: event.number }
          : { accepted: false, reason: event.reason },
      )
    }
    const moved = commandOf(event)
    if (moved !== null) for (const request of this.#waiting) request.moved ??= moved
  }

  stop(): void {
    for (const request of this.#waiting.splice(0))
      request.fail(new InstarError('stopping', 'the publisher is stopping'))
  }
}

const isVerdict = (event: Event): event is Verdict =>
  event.type === 'VersionPublished' || event.type === 'VersionRejected'

const isSame = (a: Verdict | null, b: Verdict): boolean =>
  a !== null && a.prev === b.prev && a.update === b.update && a.type === b.type && a.at === b.at

/** The command that moved the head of the policy, in words; null: the record is that of an update, or moved no head. */
const commandOf = (event: Event): string | null => {
  if (event.type === 'HeadMoved') return `to version ${event.to} (${event.who})`
  if (event.type !== 'VersionPublished' || event.why !== 'promotion') return null
  return `to version ${event.number}, a promotion${event.asked ? ` (${event.asked.who})` : ''}`
}
