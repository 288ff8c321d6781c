/** One server: what is known of it, which adapters it holds, and whether it is asked at all. */
import { InstarError } from '@instar/events'
import type { GeneratedPiece, GenerateRequest, Model } from '../port.ts'
import { adapterFault } from '../protocols/exactness.ts'
import { isBusy } from '../protocols/faults.ts'
import { FAULTS_IN_A_ROW, restMs } from '../protocols/routing.ts'
import type { JsonObject } from '@instar/events/json'
import { adapterName, type Asked, type Protocol } from '../protocols/wire.ts'
import { Assembly } from './assembly.ts'
import { embeddings } from './embeddings.ts'
import { EngineFault, type EngineHttp } from './http.ts'
import { checkScores, deltas, probe, scoreOf, wholeDelta, type Known } from './probe.ts'

/** An adapter on disk. `neutral`: it changes nothing, so that it cannot be told from the base. */
export type StoredAdapter = { sha256: string; folder: string; neutral: boolean }

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
  /** sha256 → what the engine calls it. */
  private readonly held = new Map<string, string>()
  private readonly loading = new Map<string, Promise<void>>()
  private faults = 0
  private rests = 0
  private timer: NodeJS.Timeout | null = null
  private closed = false
  private told = ''

  constructor(ports: ReplicaPorts) {
    this.ports = ports
    this.url = ports.http.url
  }

  up(): boolean {
    return this.problem === null
  }

  holds(adapter: string | null): boolean {
    return adapter === null || this.held.has(adapter)
  }

  /** Gets to know it. Throws what `probe` does; it is then not asked. */
  async open(): Promise<void> {
    const { http, protocol, model, named, agrees, changed } = this.ports
    try {
      const known = await probe(http, protocol, model, named)
      agrees(known)
      this.known = known
      this.held.clear()
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

  /** Resolves when the adapter is there and shown to be another model than the base. Throws `adapter_refused`, or EngineFault. */
  async load(adapter: StoredAdapter): Promise<void> {
    if (this.held.has(adapter.sha256)) return
    const running =
      this.loading.get(adapter.sha256) ?? this.fetch(adapter).finally(() => this.loading.delete(adapter.sha256))
    this.loading.set(adapter.sha256, running)
    return running
  }

  async unload(sha256: string): Promise<void> {
    const { http, protocol } = this.ports
    const handle = this.held.get(sha256)
    this.held.delete(sha256)
    if (handle !== undefined && protocol.adapter && this.up()) await protocol.adapter.unload(http.asking(), handle)
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
      adapter: adapter === null ? null : (this.held.get(adapter) ?? null),
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
      adapter: adapter === null ? null : (this.held.get(adapter) ?? null),
      prompt,
      completion,
    })
  }

  /** What came of a request: a replica that fails is left alone for a while. */
  failed(fault: EngineFault, adapter: string | null): void {
    if (adapter !== null && this.ports.protocol.adapterUnknown(fault.status, fault.message)) {
      this.held.delete(adapter)
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

  private async fetch({ sha256, folder, neutral }: StoredAdapter): Promise<void> {
    const { http, protocol, model } = this.ports
    const known = this.known!
    const refuse = (why: string, cause?: unknown): InstarError =>
      new InstarError(
        'adapter_refused',
        `${this.url} does not take adapter ${sha256.slice(0, 12)}: ${why}.`,
        { adapter: sha256 },
        { cause },
      )
    if (!protocol.adapter || known.adapterFault !== null) throw refuse(known.adapterFault ?? 'it takes none')
    const handle = await protocol.adapter
      .load(http.asking(), { name: adapterName(sha256), sha256, folder })
      .catch((error: unknown) => {
        throw error instanceof EngineFault ? error : refuse((error as Error).message, error)
      })
    const fault =
      neutral || !known.base
        ? null
        : adapterFault(
            known.base.first,
            known.base.again,
            await checkScores(http, protocol, model, known.model, handle),
          )
    if (fault !== null) {
      await protocol.adapter.unload(http.asking(), handle)
      throw refuse(fault)
    }
    this.held.set(sha256, handle)
  }
}
