/** A large answer that seldom changes: as bytes, also compressed, until it is made of other objects. */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyReply, FastifyRequest } from 'fastify'

type Compress = (bytes: Buffer) => Promise<Buffer>

type Kept = { parts: readonly unknown[]; etag: string; bytes: Buffer; compressed: Promise<Buffer> | null }

export class KeptAnswer {
  private kept: Kept | null = null
  private readonly compress: Compress

  constructor(compress: Compress = promisify(gzip)) {
    this.compress = compress
  }

  /**
   * Sends what `of` gives as JSON; status 304 where the caller has it. `of` is called only if a part is another object than
   * before. Compressed outside of the event loop.
   */
  async send(
    request: FastifyRequest,
    reply: FastifyReply,
    parts: readonly unknown[],
    of: () => unknown,
  ): Promise<FastifyReply> {
    if (this.kept === null || parts.some((part, i) => part !== this.kept!.parts[i])) {
      const bytes = Buffer.from(JSON.stringify(of()))
      const etag = `W/"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`
      this.kept = { parts, etag, bytes, compressed: null }
    }
    const { kept } = this
    void reply.headers({ etag: kept.etag, vary: 'accept-encoding' })
    if (request.headers['if-none-match'] === kept.etag) return reply.status(304).send()
    void reply.header('content-type', 'application/json; charset=utf-8')
    if (!/\bgzip\b/.test(String(request.headers['accept-encoding'] ?? ''))) return reply.send(kept.bytes)
    kept.compressed ??= this.compress(kept.bytes).catch((error: unknown) => {
      kept.compressed = null
      throw error
    })
    return reply.header('content-encoding', 'gzip').send(await kept.compressed)
  }
}
