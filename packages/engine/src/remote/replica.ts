/** One server: what is known of it, which adapters it holds, and whether it is asked at all. */
import { InstarError } from '@instar/events'
import type { GeneratedPiece, GenerateRequest, Model } from '../port.ts'
import { isBusy } from '../protocols/faults.ts'
import { FAULTS_IN_A_ROW, restMs } from '../protocols/routing.ts'
import type { JsonObject } from '@instar/events/json'
import type { Asked, Protocol } from '../protocols/wire.ts'
import { Assembly } from './assembly.ts'
import { embeddings } from './embeddings.ts'
import { HeldAdapters, type StoredAdapter } from './held-adapters.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { deltas, probe, scoreOf, wholeDelta, type Known } from './probe.ts'

export type ReplicaPorts = {
  http: EngineHttp
  protocol: Protocol
  model: Model
  /** The model's name there; null: the first that it lists. */
  named: string | null
  /** What it should hold when it comes back. */
  wanted: () => Iterable<StoredAdapter>
  /** Throws where what this replica serves is not what the others serve. */
  agrees: (known: Known) => void
  changed: () => void
  say: (line: string) => void
}

export class Replica {
  readonly url: string
  running = 0
  /** Why it is not asked; null while it is. */
  problem: string | null = 'it has not answered yet'
  known: Known | null = null
  private readonly ports: ReplicaPorts
  private readonly adapters: HeldAdapters
  private faults = 0
  private rests = 0
  private timer: NodeJS.Timeout | null = null
  private closed = false
  private told = ''

  constructor(ports: ReplicaPorts) {
    this.ports = ports
    this.url = ports.http.url
    this.adapters = new HeldAdapters(ports)
  }

  up(): boolean {
    return this.problem === null
  }

  holds(adapter: string | null): boolean {
    return adapter === null || this.adapters.has(adapter)
  }

  /** Gets to know it. Throws what `probe` does; it is then not asked. */
  async open(): Promise<void> {
    const { http, protocol, model, named, agrees, changed } = this.ports
    try {
      const known = await probe(http, protocol, model, named)
      agrees(known)
      this.known = known
      this.adapters.clear()
      for (const adapter of this.ports.wanted()) {
        await this.load(adapter).catch((error: unknown) => {
          if (!(error instanceof InstarError)) throw error
          this.ports.say(error.message)
        })
      }
      this.problem = null
      this.faults = 0
      this.rests = 0
    } catch (error) {
      this.problem = (error as Error).message
      throw error
    } finally {
      changed()
    }
  }

  /** Tries to open it again and again. */
  reopen(): void {
    if (this.timer || this.closed) return
    this.timer = setTimeout(() => {
      this.timer = null
      if (this.closed) return
      this.open().then(
        () => {
          this.tell(`${this.url} answers again`)
        },
        (error: unknown) => {
          // That it is away has been said; that something else is there has not.
          if (error instanceof InstarError) this.tell(error.message)
          this.reopen()
        },
      )
    }, restMs(this.rests))
    this.rests += 1
  }

  /** Throws as `HeldAdapters.load` does. */
  load(adapter: StoredAdapter): Promise<void> {
    return this.adapters.load(adapter, this.known!)
  }

  unload(sha256: string): Promise<void> {
    return this.adapters.unload(sha256, this.up())
  }

  async *generate(
    request: GenerateRequest,
    grammar: string | null,
    signal: AbortSignal | undefined,
  ): AsyncGenerator<GeneratedPiece> {
    const { http, protocol } = this.ports
    const assembly = this.assembly(request)
    this.running += 1
    try {
      for await (const delta of deltas(http, protocol, this.asked(request, grammar), signal)) {
        yield* assembly.add(delta)
        if (assembly.enough()) break
      }
      yield this.ended(assembly)
    } finally {
      this.running -= 1
    }
  }

  /** The pieces of an answer that is asked for in one: nothing of it is there before all of it. The last throws as `generate` does where it is no end. */
  async whole(request: GenerateRequest, signal: AbortSignal | undefined): Promise<Iterable<GeneratedPiece>> {
    const { http, protocol } = this.ports
    const assembly = this.assembly(request)
    this.running += 1
    try {
      return this.pieces(assembly, assembly.add(await wholeDelta(http, protocol, this.asked(request, null), signal)))
    } finally {
      this.running -= 1
    }
  }

  private *pieces(assembly: Assembly, shown: readonly GeneratedPiece[]): Generator<GeneratedPiece> {
    yield* shown
    yield this.ended(assembly)
  }

  private assembly(request: GenerateRequest): Assembly {
    const { protocol, model } = this.ports
    return new Assembly(protocol, model, request, this.known!.logprobs)
  }

  private asked(
    { adapter, prompt, sampling, topLogprobs, chat, reweighting }: GenerateRequest,
    grammar: string | null,
  ): Asked {
    const { endOfTurn } = this.ports.model
    const asked: Asked = {
      model: this.known!.model,
      adapter: this.adapters.nameOf(adapter),
      prompt,
      sampling,
      topLogprobs,
      endOfTurn,
      chat: chat ?? null,
      ...(reweighting ? { reweighting } : {}),
    }
    return grammar === null ? asked : { ...asked, grammar }
  }

  private ended(assembly: Assembly): GeneratedPiece {
    if (!assembly.complete()) throw new EngineFault('cut', `${this.url} ended an answer without its end`)
    this.faults = 0
    return assembly.end()
  }

  embed(bodyFor: (served: string) => JsonObject, signal: AbortSignal | undefined): Promise<JsonObject> {
    const { http, protocol } = this.ports
    return embeddings(http, protocol.kind, bodyFor(this.known!.model), signal)
  }

  /** Log-probs at temperature 1. */
  score(prompt: readonly number[], completion: readonly number[], adapter: string | null): Promise<number[]> {
    const { http, protocol } = this.ports
    return scoreOf(http, protocol, {
      model: this.known!.model,
      adapter: this.adapters.nameOf(adapter),
      prompt,
      completion,
    })
  }

  /** What came of a request: a replica that fails is left alone for a while. */
  failed(fault: EngineFault, adapter: string | null): void {
    if (adapter !== null && this.ports.protocol.adapterUnknown(fault.status, fault.message)) {
      this.adapters.forget(adapter)
      return
    }
    if (isBusy(fault.status)) return
    this.faults += fault.kind === 'unreachable' ? FAULTS_IN_A_ROW : 1
    if (this.faults >= FAULTS_IN_A_ROW && this.problem === null) {
      this.problem = fault.brief(this.url)
      this.tell(`${this.url} is left alone for now: ${this.problem}`)
      this.reopen()
      this.ports.changed()
    }
  }

  close(): void {
    this.closed = true
    if (this.timer) clearTimeout(this.timer)
    this.ports.http.close()
  }

  /** What was said last is not said again. */
  private tell(line: string): void {
    if (this.told !== line) this.ports.say(line)
    this.told = line
  }
}
