/** Constraints as EBNF grammars for the servers, written in a worker thread and cached. */
import { contentSha, InstarError, LruMap } from '@instar/events'
import type { Constraint, Model } from '../port.ts'
import { keyOf } from '@instar/grammar'
import { Worker } from 'node:worker_threads'
import type { GrammarRequest, GrammarReply } from './grammar-thread.ts'

/** Cached grammars, each of 256 KiB at most; refusals are cached too. */
const GRAMMARS_MAX = 64

export class Grammars {
  private readonly thinks: boolean
  private readonly cache = new LruMap<string, Promise<string>>()
  private readonly pending = new Map<number, PromiseWithResolvers<string>>()
  private thread: Worker | null = null
  private lastId = 0

  constructor({ thinks = false }: Pick<Model, 'thinks'>) {
    this.thinks = thinks
  }

  /** Rejects with `bad_request` naming the field and the keyword that is not supported. */
  async of(constraint: Constraint): Promise<string> {
    const key = contentSha(Buffer.from(keyOf(constraint)))
    const grammar = this.cache.get(key) ?? this.write(constraint)
    this.cache.set(key, grammar)
    if (this.cache.size > GRAMMARS_MAX) this.cache.delete(this.cache.oldest()!)
    try {
      return await grammar
    } catch (error) {
      // A lost thread is not the schema's fault: the next request tries again.
      if (!(error instanceof InstarError) || error.code !== 'bad_request') this.cache.delete(key)
      throw error
    }
  }

  async close(): Promise<void> {
    await this.thread?.terminate()
  }

  private write(constraint: Constraint): Promise<string> {
    const id = (this.lastId += 1)
    const grammar = Promise.withResolvers<string>()
    this.pending.set(id, grammar)
    this.thread ??= this.start()
    this.thread.postMessage({ id, constraint, thinks: this.thinks } satisfies GrammarRequest)
    return grammar.promise
  }

  private start(): Worker {
    const thread = new Worker(new URL('./grammar-thread.ts', import.meta.url), { name: 'instar grammars' })
    thread.unref()
    thread.on('message', (written: GrammarReply) => {
      const grammar = this.pending.get(written.id)
      this.pending.delete(written.id)
      if ('grammar' in written) grammar?.resolve(written.grammar)
      else grammar?.reject(new InstarError(written.refused.code, written.refused.message, written.refused.details))
    })
    let cause: unknown
    thread.on('error', (error) => {
      cause = error
    })
    thread.on('exit', () => {
      this.thread = null
      for (const { reject } of this.pending.values())
        reject(new InstarError('internal', 'The thread that writes grammars has ended.', {}, { cause }))
      this.pending.clear()
    })
    return thread
  }
}
