/**
 * The connections of the server. Each is an open file of the process, which has the log, PostgreSQL and adapters open as well, and
 * whoever reaches the port may open any number. At the limit the connection closes that has been without a request for the
 * longest time, or else one whose request still arrives, so that a new client is served; running answers are not ended.
 */
import { readFileSync } from 'node:fs'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'

/** Connections at most, and the part of the files that the process may open. */
const MOST = 4096
const PART = 2
/** Files of a process where the system does not tell: the usual least. */
const USUAL_FILES = 1024

/** Of `limits` in proc(5): the soft limit, which Node raises to the hard one at its start. */
export const mostConnections = (limits: string): number => {
  const said = /^Max open files +(\d+|unlimited) /m.exec(limits)?.[1]
  const files = said === 'unlimited' ? Infinity : Number(said ?? USUAL_FILES)
  return Math.min(MOST, Math.floor(files / PART))
}

export const limitsOfProcess = (): string => {
  try {
    return readFileSync('/proc/self/limits', 'latin1')
  } catch {
    return ''
  }
}

export class Connections {
  /** Connections that were closed at the limit. */
  ended = 0
  private readonly most: number
  /** Without a request, in the order in which they became so. */
  private readonly idle = new Set<Socket>()
  /** The requests that are answered, those that a connection sent ahead too. */
  private readonly busy = new Map<Socket, Set<IncomingMessage>>()

  constructor(most = mostConnections(limitsOfProcess())) {
    this.most = most
  }

  get open(): number {
    return this.idle.size + this.busy.size
  }

  /** Call before other listeners are added. */
  limit(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.idle.add(socket)
      socket.once('close', () => {
        this.idle.delete(socket)
        this.busy.delete(socket)
      })
      if (this.open > this.most) this.end(this.leastUsed(socket))
    })
  }

  /** Requests of the connection that are being answered. */
  answered(socket: Socket): number {
    return this.busy.get(socket)?.size ?? 0
  }

  /** The request of a connection is being answered; call the function that is returned when its response has closed. */
  answering(request: IncomingMessage): () => void {
    const { socket } = request
    this.idle.delete(socket)
    const requests = this.busy.get(socket) ?? new Set()
    this.busy.set(socket, requests.add(request))
    return () => {
      requests.delete(request)
      if (requests.size > 0 || !this.busy.delete(socket) || socket.destroyed) return
      this.idle.add(socket)
    }
  }

  private leastUsed(latest: Socket): Socket {
    for (const socket of this.idle) if (socket !== latest) return socket
    for (const [socket, requests] of this.busy) if ([...requests].some(({ complete }) => !complete)) return socket
    return latest
  }

  private end(socket: Socket): void {
    this.ended += 1
    this.idle.delete(socket)
    this.busy.delete(socket)
    socket.destroy()
  }
}
