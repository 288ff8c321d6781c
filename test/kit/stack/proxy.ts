/** A TCP proxy that parses Kafka's messages: it drops or delays whole ones. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** API keys of the requests that tests name. */
export const API = {
  produce: 0,
  fetch: 1,
  listOffsets: 2,
  metadata: 3,
  offsetCommit: 8,
  findCoordinator: 10,
  joinGroup: 11,
  heartbeat: 12,
  leaveGroup: 13,
  syncGroup: 14,
  initProducerId: 22,
} as const

export type Fate = 'pass' | 'drop' | { delay: number }

export type Proxy = {
  port: number
  /** The target of new connections. */
  upstream: number
  /** What happens to a request before the broker gets it, and to the response after the broker has acted. */
  request: (api: number) => Fate
  response: (api: number) => Fate
  /** Bytes of the responses so far, by kind of request. */
  answered: Map<number, number>
  close(): Promise<void>
}

/** Messages from a byte stream: 4 bytes of length, then the message. */
const messages = (deal: (message: Buffer) => void): ((chunk: Buffer) => void) => {
  let kept: Buffer = Buffer.alloc(0)
  return (chunk) => {
    kept = kept.length === 0 ? chunk : Buffer.concat([kept, chunk])
    while (kept.length >= 4 && kept.length >= 4 + kept.readInt32BE(0)) {
      const size = 4 + kept.readInt32BE(0)
      deal(kept.subarray(0, size))
      kept = kept.subarray(size)
    }
  }
}

export const startProxy = (): Promise<Proxy> =>
  new Promise((resolve, reject) => {
    const sockets = new Set<Socket>()
    const server = createServer((client) => {
      const broker = connect({ host: '127.0.0.1', port: proxy.upstream })
      /** The API key of each open correlation id. */
      const asked = new Map<number, number>()
      const pass = (to: Socket, message: Buffer, fate: Fate): void => {
        if (fate === 'drop') return
        const send = (): void => {
          if (to.writable) to.write(message)
        }
        if (fate === 'pass') send()
        else setTimeout(send, fate.delay)
      }
      client.on(
        'data',
        messages((message) => {
          const api = message.readInt16BE(4)
          asked.set(message.readInt32BE(8), api)
          pass(broker, message, proxy.request(api))
        }),
      )
      broker.on(
        'data',
        messages((message) => {
          const correlation = message.readInt32BE(4)
          const api = asked.get(correlation)!
          proxy.answered.set(api, (proxy.answered.get(api) ?? 0) + message.length)
          pass(client, message, proxy.response(asked.get(correlation)!))
          asked.delete(correlation)
        }),
      )
      for (const [one, other] of [
        [client, broker],
        [broker, client],
      ] as const) {
        sockets.add(one)
        one.on('error', () => other.destroy())
        one.on('close', () => {
          sockets.delete(one)
          other.destroy()
        })
      }
    })
    const proxy: Proxy = {
      port: 0,
      upstream: 0,
      request: () => 'pass',
      response: () => 'pass',
      answered: new Map(),
      close: () =>
        new Promise((closed) => {
          for (const socket of sockets) socket.destroy()
          server.close(() => closed())
        }),
    }
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      proxy.port = (server.address() as AddressInfo).port
      resolve(proxy)
    })
  })
