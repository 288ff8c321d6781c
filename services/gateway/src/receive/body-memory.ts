/**
 * The memory of request bodies, charged as they arrive and shared among callers: each may take as much as it leaves free.
 * Where there is no room, the body that gives way is one that still arrives, of the caller that holds the most. Requests
 * whose body has arrived are not ended.
 */
import { InstarError } from '@instar/events'
import { BufferCollection } from './buffers.ts'
import { networkOf } from './core/wrong-keys.ts'

/** Whose requests count together. `part`: all may take so many times the memory that stays free. */
export type Owner = { name: string; part: number }
/** Alone a key takes half of the memory; beside one that does a quarter. */
const KEY_PART = 1
/** One address may stand for many callers, behind a proxy or on the loopback. Alone it takes seven eighths. */
const ADDRESS_PART = 7

/** A key, or without one the network of an address. */
export const ownerOf = ({ key, admin }: { key: { id: string } | null; admin: boolean }, address = ''): Owner => {
  if (key) return { name: `the API key ${key.id}`, part: KEY_PART }
  if (admin) return { name: 'the admin token', part: KEY_PART }
  return { name: `the address ${networkOf(address)}`, part: ADDRESS_PART }
}

/** What one request holds. */
export type Holding = {
  readonly held: number
  /**
   * Holds `bytes` more; a negative number is given back. Throws `overloaded`, also after the request gave way, and
   * `body_too_large`.
   */
  hold(bytes: number): void
  /** Until `arrived` the request may give way: `end` is called with the client's error, and it holds nothing more. */
  arriving(end: (why: InstarError) => void): void
  /** The body has arrived, and takes `bytes` of what is held. */
  arrived(bytes: number): void
  /** The request is over. */
  release(): void
}

type Account = Owner & { bytes: number; whole: number; requests: Set<Request> }

/** Text as it came and parsed, with two bytes per character. */
const TEXT_COPIES = 3
const RETRY_MS = 1000

export class BodyMemory {
  private readonly limit: number
  private readonly single: number
  private readonly accounts = new Map<string, Account>()
  private readonly collection = new BufferCollection()
  private bytes = 0
  /** Of requests whose body has arrived. */
  private whole = 0

  /** `body`: maximum size of one body. One of text fits if no other is there, although it exceed `limit`. */
  constructor(limit: number, body: number) {
    this.limit = Math.max(limit, body)
    this.single = Math.max(limit / 2, TEXT_COPIES * body)
  }

  get held(): number {
    return this.bytes
  }

  /** A request that holds nothing yet. */
  enter(owner: Owner): Holding {
    const account = this.accounts.get(owner.name) ?? { ...owner, bytes: 0, whole: 0, requests: new Set() }
    this.accounts.set(owner.name, account)
    return new Request(this, account)
  }

  /** Throws `overloaded` if a body of this size would find no room beside those that have arrived. */
  foresee({ name, part }: Owner, bytes: number): void {
    const own = this.accounts.get(name)?.whole ?? 0
    if (this.whole > 0 && this.exceeds({ own, all: this.whole, part }, bytes)) throw this.full(name, bytes)
  }

  /** Ends other requests where that makes room. */
  makeRoom(request: Request, bytes: number): void {
    if (request.held + bytes > this.single) throw this.tooLarge(request.held + bytes)
    const { account } = request
    while (
      this.bytes > request.held &&
      this.exceeds({ own: account.bytes, all: this.bytes, part: account.part }, bytes)
    ) {
      const given = this.toGive(request, bytes)
      if (!given) throw this.full(account.name, bytes)
      given.giveWay(this.gaveWay(given.account.name))
    }
  }

  /** `whole`: of these bytes, those of a request whose body has arrived. */
  move({ account }: Request, bytes: number, whole: number): void {
    account.bytes += bytes
    account.whole += whole
    this.bytes += bytes
    this.whole += whole
    this.collection.move(Math.abs(bytes), this.bytes)
  }

  leave(request: Request): void {
    const { name, requests } = request.account
    requests.delete(request)
    if (requests.size === 0) this.accounts.delete(name)
  }

  private exceeds({ own, all, part }: { own: number; all: number; part: number }, bytes: number): boolean {
    return own + bytes > part * (this.limit - all - bytes)
  }

  /**
   * The largest body that arrives: of another caller that would still hold more than this one, else of this caller, if
   * it is larger than this request or this request's body has arrived.
   */
  private toGive(request: Request, bytes: number): Request | null {
    let most = { bytes: request.account.bytes + bytes, request: null as Request | null }
    for (const account of this.accounts.values()) {
      if (account === request.account || account.bytes <= most.bytes) continue
      const found = largest(account, request, 0)
      if (found) most = { bytes: account.bytes, request: found }
    }
    return most.request ?? largest(request.account, request, request.end ? request.held + bytes : 0)
  }

  private full(name: string, bytes: number): InstarError {
    const own = this.accounts.get(name)?.bytes ?? 0
    const message = `The bodies of running requests take ${this.bytes} of ${this.limit} bytes of memory, those of ${name} ${own}; this one takes ${bytes} more.`
    return new InstarError('overloaded', message, { limit: this.limit, retryAfterMs: RETRY_MS })
  }

  private gaveWay(name: string): InstarError {
    const message = `The bodies of running requests take the ${this.limit} bytes of memory that they may, and this request, of ${name}, was ended while its body arrived.`
    return new InstarError('overloaded', message, { limit: this.limit, retryAfterMs: RETRY_MS })
  }

  private tooLarge(bytes: number): InstarError {
    const message = `The request takes ${bytes} bytes of memory, with its parsed body and what its answer needs; at most ${this.single} are allowed.`
    return new InstarError('body_too_large', message, { limit: this.single })
  }
}

class Request implements Holding {
  held = 0
  readonly account: Account
  /** Null unless the body arrives. */
  end: ((why: InstarError) => void) | null = null
  private readonly memory: BodyMemory
  private why: InstarError | null = null
  private over = false

  constructor(memory: BodyMemory, account: Account) {
    this.memory = memory
    this.account = account
    account.requests.add(this)
  }

  hold(bytes: number): void {
    if (this.over) return
    if (this.why) throw this.why
    if (bytes > 0) this.memory.makeRoom(this, bytes)
    this.change(bytes)
  }

  arriving(end: (why: InstarError) => void): void {
    this.end = end
    this.memory.move(this, 0, -this.held)
  }

  arrived(bytes: number): void {
    if (!this.end || this.over) return
    this.change(bytes - this.held)
    this.end = null
    this.memory.move(this, 0, this.held)
  }

  giveWay(why: InstarError): void {
    const { end } = this
    this.why = why
    this.change(-this.held)
    this.end = null
    end!(why)
  }

  release(): void {
    this.over = true
    this.change(-this.held)
    this.memory.leave(this)
  }

  private change(bytes: number): void {
    this.held += bytes
    this.memory.move(this, bytes, this.end ? 0 : bytes)
  }
}

const largest = ({ requests }: Account, besides: Request, above: number): Request | null => {
  let found: Request | null = null
  for (const request of requests)
    if (request.end && request !== besides && request.held > Math.max(above, found?.held ?? 0)) found = request
  return found
}
