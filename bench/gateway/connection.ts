/**
 * An HTTP/1.1 connection with one request at a time, on a TCP socket, so that the client uses little CPU compared with
 * what it measures.
 */
import { connect, type Socket } from 'node:net'
import { once } from 'node:events'

/**
 * `firstAt`: first byte of the body; `endedAt`: its end; `performance.now()` of this process. `ok`: status 200 and, for
 * a stream, `[DONE]`. `body`: empty unless it was kept.
 */
export type Reply = { ok: boolean; firstAt: number; endedAt: number; body: string }

/** Characters at the end of the body that are kept to find its end. */
const TAIL = 64

export class Connection {
  readonly #socket: Socket
  #head: string | null = null
  #received: Buffer = Buffer.alloc(0)
  #bytesLeft = 0
  #chunked = false
  #ok = false
  #firstAt = 0
  #tail = ''
  #body: Buffer[] | null = null
  #settle: ((reply: Reply) => void) | null = null
  closed = false

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.setNoDelay(true)
    socket.on('data', (bytes: Buffer) => this.#read(bytes))
    socket.on('error', () => undefined)
    socket.on('close', () => {
      this.closed = true
      this.#end(false)
    })
  }

  static async open(port: number): Promise<Connection> {
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return new Connection(socket)
  }

  /** `keep`: return the body. Never rejects: a failed request is not `ok`. */
  send(request: Buffer, keep: boolean): Promise<Reply> {
    this.#head = null
    this.#received = Buffer.alloc(0)
    this.#tail = ''
    this.#firstAt = 0
    this.#body = keep ? [] : null
    return new Promise((resolve) => {
      this.#settle = resolve
      if (this.closed) this.#end(false)
      else this.#socket.write(request)
    })
  }

  close(): void {
    this.#socket.destroy()
  }

  #read(bytes: Buffer): void {
    let body = bytes
    if (this.#head === null) {
      this.#received = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes])
      const end = this.#received.indexOf('\r\n\r\n')
      if (end < 0) return
      this.#head = this.#received.toString('latin1', 0, end).toLowerCase()
      this.#ok = this.#head.startsWith('http/1.1 200')
      this.#chunked = this.#head.includes('transfer-encoding: chunked')
      this.#bytesLeft = Number(/\r\ncontent-length: (\d+)/.exec(this.#head)?.[1] ?? 0)
      body = this.#received.subarray(end + 4)
      if (body.length === 0 && (this.#chunked || this.#bytesLeft > 0)) return
    }
    this.#firstAt ||= performance.now()
    this.#body?.push(Buffer.from(body))
    this.#bytesLeft -= body.length
    this.#tail =
      body.length >= TAIL
        ? body.toString('latin1', body.length - TAIL)
        : (this.#tail + body.toString('latin1')).slice(-TAIL)
    if (this.#chunked ? this.#tail.endsWith('\r\n0\r\n\r\n') : this.#bytesLeft <= 0) this.#end(this.#ok)
  }

  #end(ok: boolean): void {
    const settle = this.#settle
    this.#settle = null
    const events = this.#head?.includes('text/event-stream') ?? false
    settle?.({
      ok: ok && (!events || this.#tail.includes('[DONE]')),
      firstAt: this.#firstAt,
      endedAt: performance.now(),
      body: this.#body ? Buffer.concat(this.#body).toString('utf8') : '',
    })
  }
}
