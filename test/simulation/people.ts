/** Clients that hop from gateway to gateway and give up on slow ones, and an admin who rolls back and freezes. */
import type { Command } from '@instar/gateway/core/admin'
import { weightLine } from '@instar/events'
import type { Answer, Call, Gateway, Said } from './gateway.ts'
import { POLICY } from './services.ts'
import type { World } from './world.ts'

const TURNS = 3
type Opinion = { id: string; session: string; turn: string | null; value: number }

export class Client {
  readonly name: string
  readonly #world: World
  readonly label: string | null
  readonly #messages: Said[] = []
  readonly received: Answer[] = []
  /** Ids of feedback that was acknowledged. */
  readonly feedback: string[] = []
  #waiting: { gateway: Gateway; life: object; since: number; call: Call } | null = null
  #turns = 0
  #opinion: Opinion | null = null

  constructor(world: World, name: string) {
    this.#world = world
    this.name = name
    this.label = world.remembered < 100 || world.random.chance(0.5) ? name : null
    this.#say()
  }

  get done(): boolean { return this.#waiting === null && this.#turns > TURNS && this.#opinion === null }

  /** Whatever comes next: asking, giving up, giving feedback. False while it waits. */
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
    if (this.done) return false
    const gateway = random.pick(this.#world.gateways)
    if (!gateway.alive) return false
    if (this.#opinion) this.#rate(gateway, this.#opinion)
    else this.#ask(gateway)
    return true
  }

  #say(): void {
    this.#messages.push({ role: 'user', content: `u${this.#world.random.hex(4)}` })
    this.#turns += 1
  }

  #ask(gateway: Gateway): void {
    const call: Call = {
      kind: 'chat', messages: [...this.#messages], label: this.label, ends: gateway.ends, waited: false, gone: false,
      answer: (answer) => {
        if (this.#waiting?.call !== call) return
        this.#waiting = null
        this.#receive(answer)
      },
    }
    this.#send(gateway, call)
  }

  #receive(answer: Answer): void {
    const { random } = this.#world
    const before = this.received.at(-1)
    if (before && before.session !== answer.session) this.#world.broken(`${this.name} was continued in session ${answer.session}, it spoke in ${before.session}`)
    this.received.push(answer)
    this.#messages.push({ role: 'assistant', content: answer.text })
    if (random.chance(0.35)) {
      const old = random.pick(this.received)
      this.#opinion = { id: random.hex(8), session: old.session, turn: random.chance(0.7) ? old.turn : null, value: random.chance(0.5) ? 1 : -1 }
    }
    this.#say()
  }

  #rate(gateway: Gateway, opinion: Opinion): void {
    const call: Call = {
      kind: 'feedback', ...opinion, ends: gateway.ends, waited: false,
      done: (known) => {
        if (this.#waiting?.call !== call) return
        this.#waiting = null
        this.#opinion = null
        if (known) this.feedback.push(opinion.id)
        else this.#world.broken(`${this.name} rated ${opinion.turn ?? opinion.session}, which ${gateway.name} did not find`)
      },
    }
    this.#send(gateway, call)
  }

  #send(gateway: Gateway, call: Call): void {
    this.#waiting = { gateway, life: gateway.life, since: this.#world.step, call }
    gateway.calls.push(call)
  }
}

export class Admin {
  readonly #world: World
  #left: number
  #waiting: { gateway: Gateway; life: object; call: Call } | null = null
  #command: { command: Command; request: string } | null = null
  /** Requests that were answered as done. */
  readonly done: string[] = []

  constructor(world: World) {
    this.#world = world
    this.#left = world.random.below(4)
  }

  get idle(): boolean { return this.#waiting === null && this.#command === null && this.#left === 0 }

  act(): boolean {
    const { random } = this.#world
    if (this.#waiting) {
      if (this.#waiting.gateway.alive && this.#waiting.gateway.life === this.#waiting.life) return false
      this.#waiting = null
    }
    if (this.idle) return false
    const gateway = random.pick(this.#world.gateways)
    if (!gateway.alive) return false
    this.#command ??= { command: this.#think(gateway), request: random.hex(8) }
    const { command, request } = this.#command
    const call: Call = {
      kind: 'admin', ordered: { command, policy: POLICY, request, who: 'admin', why: command.do }, ends: this.#world.log.ends(['weights']), pending: false,
      done: (refused) => {
        if (this.#waiting?.call !== call) return
        if (refused === null) this.done.push(request)
        this.#waiting = null
        this.#command = null
        this.#left -= 1
      },
    }
    this.#waiting = { gateway, life: gateway.life, call }
    gateway.calls.push(call)
    return true
  }

  #think(gateway: Gateway): Command {
    const { random } = this.#world
    const versions = [...weightLine(gateway.state.weights, POLICY).versions.keys(), 0]
    return random.chance(0.5) ? { do: 'rollback', to: random.pick(versions), freeze: random.chance(0.5) } : { do: 'freeze', on: random.chance(0.4) }
  }
}
