/** A proxy between a client and the gateway that forwards everything unchanged and records it. */
import { createServer, request as ask, type IncomingHttpHeaders } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'

export type Exchange = {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
  status: number
  /** The value of Retry-After. */ retryAfterMs: number
  /** The turn of the answer. */ turn: string | null
  answer: string
  dropped: boolean
  /** Milliseconds of the request and of the end of the answer. */ at: number
  endedAt: number
}

export type Wire = {
  url: string
  exchanges: Exchange[]
  /** Runs before the next request is forwarded. */ first(task: () => Promise<void>): void
  /** Drops the connection of the next stream once the answer has this text. */ dropAt(text: string): void
  stop(): Promise<void>
}

/** `target`: the gateway's URL. */
export const startWire = async (target: string): Promise<Wire> => {
  const { hostname, port } = new URL(target)
  const exchanges: Exchange[] = []
  const drop: { at: string | null } = { at: null }
  let before: Promise<void> | (() => Promise<void>) = Promise.resolve()
  const server = createServer((from, to) => {
    const chunks: Buffer[] = []
    from.on('data', (bytes: Buffer) => chunks.push(bytes))
    from.once('end', () => {
      const body = Buffer.concat(chunks)
      const exchange: Exchange = {
        method: from.method ?? '',
        path: from.url ?? '',
        headers: from.headers,
        body: body.toString('utf8'),
        status: 0,
        retryAfterMs: 0,
        turn: null,
        answer: '',
        dropped: false,
        at: Date.now(),
        endedAt: 0,
      }
      exchanges.push(exchange)
      const { connection: _, 'transfer-encoding': __, ...headers } = from.headers
      const through = ask(
        {
          hostname,
          port,
          method: from.method,
          path: from.url,
          headers: { ...headers, host: `${hostname}:${port}`, 'content-length': body.length },
        },
        (answer) => {
          exchange.status = answer.statusCode ?? 0
          exchange.retryAfterMs = Number(answer.headers['retry-after-ms'] ?? 0)
          exchange.turn = String(answer.headers['x-instar-turn-id'] ?? '') || null
          to.writeHead(exchange.status, answer.headers)
          answer.on('data', (bytes: Buffer) => {
            if (exchange.dropped) return
            exchange.answer += bytes.toString('utf8')
            exchange.dropped = drop.at !== null && exchange.answer.includes(drop.at)
            // Earlier bytes arrive; the connection is dropped after them.
            if (!exchange.dropped) return void to.write(bytes)
            drop.at = null
            to.write(bytes, () => {
              to.destroy()
              through.destroy()
            })
          })
          answer.once('end', () => to.end())
          answer.once('close', () => {
            exchange.endedAt = Date.now()
          })
          answer.on('error', () => to.destroy())
        },
      )
      through.on('error', () => to.destroy())
      to.once('close', () => {
        if (!to.writableFinished) through.destroy()
      })
      if (typeof before === 'function') before = before()
      void before.then(() => through.end(body))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    exchanges,
    first(task) {
      before = task
    },
    dropAt(text) {
      drop.at = text
    },
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
