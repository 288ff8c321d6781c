/** Clients that change gateways and abandon slow ones, and an admin who rolls back and freezes. */
import type { Command } from '../../services/gateway/src/admin/core/admin.ts'
import { weightLine } from '@instar/events'
import type { Answer, Call, ChatCall, FeedbackCall, Gateway, Said } from './gateway.ts'
import { POLICY } from './services.ts'
import type { World } from './world.ts'

const FEWEST_TURNS = 2
const MOST_TURNS = 8
type Opinion = { id: string; session: string; turn: string | null; value: number }
/** An answer, and its turn as the client has it. */
export type Received = Answer & { repeated: string }

export class Client {
  readonly name: string
  readonly #world: World
  readonly label: string | null
  /** The task of its session if that is an episode; '': it names none. */
  readonly task: string | null
  readonly #trims: boolean
  readonly #most: number
  readonly #messages: Said[] = []
  readonly received: Received[] = []
  /** Ids of acknowledged feedback. */
  readonly feedback: string[] = []
  #waiting: { gateway: Gateway; life: object; since: number; call: Call } | null = null
  #turns = 0
  #opinion: Opinion | null = null
  #farewell: boolean
  /** It names the task from its second request on. */
  readonly #namesLate: boolean
  /** It names its conversation until the first answer only. */
  readonly #forgetsLabel: boolean

  constructor(world: World, name: string) {
    const { random } = world
    this.#world = world
    this.name = name
    this.label = world.remembered < 100 || random.chance(0.5) ? name : null
    this.#forgetsLabel = world.remembered < 100 && world.gateways.every(({ disks }) => disks) && random.chance(0.5)
    this.#trims = random.chance(0.4)
    this.#most = FEWEST_TURNS + random.below(MOST_TURNS - FEWEST_TURNS + 1)
    this.task = random.chance(0.4) ? random.pick(['sort', 'sort', 'count', '']) : null
    this.#farewell = this.task !== null || random.chance(0.4)
    this.#namesLate = this.task !== null && random.chance(0.3)
    this.#say()
  }

  get done(): boolean {
    return this.#waiting === null && this.#turns > this.#most && this.#opinion === null
  }

  /** The next action: a request, an abandonment, feedback. False while it waits. */
  act(): boolean {
    const { random, step } = this.#world
    if (this.#waiting) {
      const { gateway, life, since } = this.#waiting
      const lost = !gateway.alive || gateway.life !== life
      if (!lost && step - since < 40) return false
      if (!lost && !random.chance(0.2)) return false
      if (this.#waiting.call.kind === 'chat') this.#waiting.call.gone = true
      this.#waiting = null
    }
    const gateway = random.pick(this.#world.gateways)
    if (!gateway.alive) return false
    if (this.done) return this.#leave(gateway)
    if (this.#opinion) this.#rate(gateway, this.#opinion)
    else this.#ask(gateway)
    return true
  }

  #say(): void {
    this.#messages.push({ role: 'user', content: `u${this.#world.random.hex(4)}` })
    this.#turns += 1
  }

  #ask(gateway: Gateway): void {
    const { random } = this.#world
    const last = this.received.at(-1)
    const call: ChatCall = {
      kind: 'chat',
      messages: [...this.#messages],
      label: this.#forgetsLabel && last ? null : this.label,
      side: false,
      noTrain: random.chance(0.08),
      task: this.#namesLate && !last ? '' : this.task,
      session: last?.session ?? null,
      ends: gateway.ends,
      waited: false,
      gone: false,
      failed: () => this.#give(call),
      answer: (answer) => {
        if (this.#waiting?.call !== call) return
        this.#waiting = null
        this.#receive(answer)
      },
    }
    this.#send(gateway, call)
    // A side request of the agent, for which no one waits.
    if (this.label === null || !random.chance(0.15)) return
    gateway.calls.push({
      ...call,
      messages: [...this.#messages, { role: 'user', content: 'A title?' }],
      side: true,
      failed: () => undefined,
      answer: () => undefined,
    })
  }

  #receive(answer: Answer): void {
    const { random } = this.#world
    const repeated = this.#trims ? answer.text.trim() : answer.text
    this.received.push({ ...answer, repeated })
    this.#messages.push({ role: 'assistant', content: repeated })
    if (random.chance(0.35)) {
      const old = random.pick(this.received)
      this.#opinion = {
        id: random.hex(8),
        session: old.session,
        turn: random.chance(0.7) ? old.turn : null,
        value: random.chance(0.5) ? 1 : -1,
      }
    }
    this.#say()
  }

  #rate(gateway: Gateway, opinion: Opinion): void {
    const call: FeedbackCall = {
      kind: 'feedback',
      ...opinion,
      ends: gateway.ends,
      waited: false,
      failed: () => this.#give(call),
      done: (known) => {
        if (this.#waiting?.call !== call) return
        this.#waiting = null
        // Some send it again, as if it had not been acknowledged.
        if (!this.#world.random.chance(0.2) || !known) this.#opinion = null
        if (known) this.feedback.push(opinion.id)
        else
          this.#world.broken(
            `${this.name} rated ${opinion.turn ?? opinion.session}, which ${gateway.name} did not find`,
          )
      },
    }
    this.#send(gateway, call)
  }

  #leave(gateway: Gateway): boolean {
    const session = this.received.at(-1)?.session
    if (!this.#farewell || session === undefined) return false
    this.#farewell = false
    this.#close(gateway, session)
    // It is sent again to another gateway, with what is found then.
    if (this.#world.random.chance(0.3)) this.#close(this.#world.random.pick(this.#world.gateways), session)
    return true
  }

  /** The end of its session: of an episode with its outcome, or as aborted, or without either. */
  #close(gateway: Gateway, session: string): void {
    const { random } = this.#world
    const discarded = this.task !== null && random.chance(0.25)
    const outcome = this.task === null || discarded || random.chance(0.1) ? null : random.pick([1, -1])
    const asked = { ends: gateway.ends, waited: false, failed: () => undefined }
    gateway.calls.push({ kind: 'close', session, outcome, discarded, ...asked })
  }

  #give(call: Call): void {
    if (this.#waiting?.call === call) this.#waiting = null
  }

  #send(gateway: Gateway, call: Call): void {
    this.#waiting = { gateway, life: gateway.life, since: this.#world.step, call }
    gateway.calls.push(call)
  }
}

type Order = { command: Command; request: string }

export class Admin {
  readonly #world: World
  #left: number
  #waiting: { gateway: Gateway; life: object; call: Call } | null = null
  #command: Order | null = null
  /** Acknowledged commands, some of which are sent again. */
  readonly #done: Order[] = []

  constructor(world: World) {
    this.#world = world
    this.#left = world.random.below(9)
  }

  get idle(): boolean {
    return this.#waiting === null && this.#command === null && this.#left === 0
  }

  act(): boolean {
    const { random } = this.#world
    if (this.#waiting) {
      if (this.#waiting.gateway.alive && this.#waiting.gateway.life === this.#waiting.life) return false
      this.#waiting = null
    }
    if (this.idle) return false
    const gateway = random.pick(this.#world.gateways)
    if (!gateway.alive || (this.#command === null && random.chance(0.8))) return false
    this.#command ??= this.#think(gateway)
    const { command, request } = this.#command
    const end = (): void => {
      this.#waiting = null
      this.#command = null
      this.#left -= 1
    }
    const call: Call = {
      kind: 'admin',
      ordered: { command, policy: POLICY, request, who: 'admin', why: command.do },
      ends: this.#world.log.ends(['weights']),
      waited: false,
      pending: false,
      failed: () => {
        if (this.#waiting?.call === call) this.#waiting = null
      },
      done: (refused) => {
        if (this.#waiting?.call !== call) return
        if (refused === null) this.#done.push({ command, request })
        end()
      },
    }
    this.#waiting = { gateway, life: gateway.life, call }
    gateway.calls.push(call)
    return true
  }

  #think(gateway: Gateway): Order {
    const { random } = this.#world
    if (this.#done.length > 0 && random.chance(0.2)) return random.pick(this.#done)
    const { last, frozen } = weightLine(gateway.state.weights, POLICY)
    const request = random.hex(8)
    if (random.chance(0.5))
      return { command: { do: 'rollback', to: random.below(last + 2), freeze: random.chance(0.4) }, request }
    return { command: { do: 'freeze', on: random.chance(frozen ? 0.2 : 0.5) }, request }
  }
}
