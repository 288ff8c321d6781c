/** Compiles constraints to EBNF grammars for the servers, in a worker thread, and caches them. */
import { contentSha, InstarError, LruMap } from '@instar/events'
import type { Constraint, Model } from '../port.ts'
import { keyOf } from '@instar/grammar'
import { Worker } from 'node:worker_threads'
import type { GrammarRequest, GrammarReply } from './grammar-thread.ts'

/** Cached grammars, each of at most 256 KiB, and cached `bad_request` errors. */
const MAX_GRAMMARS = 64

export class Grammars {
  private readonly mayReason: boolean
  private readonly cache = new LruMap<string, Promise<string>>()
  private readonly pending = new Map<number, PromiseWithResolvers<string>>()
  private thread: Worker | null = null
  private lastId = 0

  constructor({ mayReason = false }: Pick<Model, 'mayReason'>) {
    this.mayReason = mayReason
  }

  /**
   * Rejects with `bad_request` if the schema is not supported; the error names the request field and the keyword.
   * Rejects with `internal` if the worker thread ends; a later call starts another thread.
   */
  async of(constraint: Constraint): Promise<string> {
    const key = contentSha(Buffer.from(keyOf(constraint)))
    const grammar = this.cache.get(key) ?? this.compile(constraint)
    this.cache.set(key, grammar)
    if (this.cache.size > MAX_GRAMMARS) this.cache.delete(this.cache.oldest()!)
    try {
      return await grammar
    } catch (error) {
      // An error of the thread is not cached.
      if (!(error instanceof InstarError) || error.code !== 'bad_request') this.cache.delete(key)
      throw error
    }
  }

  async close(): Promise<void> {
    await this.thread?.terminate()
  }

  private compile(constraint: Constraint): Promise<string> {
    const id = (this.lastId += 1)
    const grammar = Promise.withResolvers<string>()
    this.pending.set(id, grammar)
    this.thread ??= this.start()
    this.thread.postMessage({ id, constraint, mayReason: this.mayReason } satisfies GrammarRequest)
    return grammar.promise
  }

  private start(): Worker {
    const thread = new Worker(new URL('./grammar-thread.ts', import.meta.url), { name: 'instar grammars' })
    thread.unref()
    thread.on('message', (reply: GrammarReply) => {
      const grammar = this.pending.get(reply.id)
      this.pending.delete(reply.id)
      if ('grammar' in reply) grammar?.resolve(reply.grammar)
      else grammar?.reject(new InstarError(reply.error.code, reply.error.message, reply.error.details))
    })
    let cause: unknown
    thread.on('error', (error) => {
      cause = error
    })
    thread.on('exit', () => {
      this.thread = null
      for (const { reject } of this.pending.values())
        reject(new InstarError('internal', 'The worker thread for grammars has ended.', {}, { cause }))
      this.pending.clear()
    })
    return thread
  }
}
