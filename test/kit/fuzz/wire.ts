/** A client that writes bytes and reads the responses. */
import { connect } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import type { Shot } from './shots.ts'

export type Answer = {
  status: number
  headers: ReadonlyMap<string, string>
  body: Buffer
  /** The end of the response was seen. */ whole: boolean
}
export type Exchange = {
  answers: Answer[]
  /** Bytes after the responses. */ rest: Buffer
  error: string | null
}

/** Longer than any of these requests may take. */
const PATIENCE_MS = 20_000

/** Resolves when the connection is closed by either side. */
export const exchange = async (
  port: number,
  { pieces, leaves, method }: Pick<Shot, 'pieces' | 'leaves' | 'method'>,
): Promise<Exchange> => {
  const over = Promise.withResolvers<string | null>()
  const got: Buffer[] = []
  const socket = connect({ port, host: '127.0.0.1', noDelay: true })
  const late = setTimeout(() => socket.destroy(new Error('nothing ended it')), PATIENCE_MS)
  socket.on('data', (data) => {
    got.push(data)
    if (leaves === 'heard') socket.destroy()
  })
  socket.on('error', (error) => over.resolve(error.message))
  socket.on('close', () => over.resolve(null))
  for (const piece of pieces) {
    if (socket.destroyed) break
    // Each in its own packet, as far as possible.
    if (!socket.write(piece))
      await new Promise<void>((resolve) => {
        socket.once('drain', resolve).once('close', resolve)
      })
    else if (pieces.length < 12) await setImmediate()
  }
  if (leaves === 'sent') socket.end(() => socket.resetAndDestroy())
  const error = await over.promise
  clearTimeout(late)
  return { ...answersIn(Buffer.concat(got), method === 'HEAD'), error }
}

const END = Buffer.from('\r\n\r\n')

const answersIn = (bytes: Buffer, bodiless: boolean): Pick<Exchange, 'answers' | 'rest'> => {
  const answers: Answer[] = []
  let rest = bytes
  while (rest.length > 0) {
    const end = rest.indexOf(END)
    const [line = '', ...lines] = rest.subarray(0, Math.max(0, end)).toString('latin1').split('\r\n')
    const status = /^HTTP\/1\.1 (\d{3})/.exec(line)?.[1]
    if (end < 0 || status === undefined) break
    const headers = new Map(
      lines.map((one) => [one.slice(0, one.indexOf(':')).toLowerCase(), one.slice(one.indexOf(':') + 1).trim()]),
    )
    const after = rest.subarray(end + END.length)
    if (status.startsWith('1')) {
      rest = after
      continue
    }
    const { body, left, whole } = bodyIn(after, headers, bodiless || status === '204' || status === '304')
    answers.push({ status: Number(status), headers, body, whole })
    rest = left
  }
  return { answers, rest }
}

const bodyIn = (
  bytes: Buffer,
  headers: ReadonlyMap<string, string>,
  bodiless: boolean,
): { body: Buffer; left: Buffer; whole: boolean } => {
  const length = headers.get('content-length')
  if (bodiless) return { body: Buffer.alloc(0), left: bytes, whole: true }
  if (length !== undefined)
    return {
      body: bytes.subarray(0, Number(length)),
      left: bytes.subarray(Number(length)),
      whole: bytes.length >= Number(length),
    }
  if (headers.get('transfer-encoding') !== 'chunked') return { body: bytes, left: Buffer.alloc(0), whole: true }
  const parts: Buffer[] = []
  let left = bytes
  for (;;) {
    const end = left.indexOf('\r\n')
    const size = end < 0 ? NaN : Number.parseInt(left.subarray(0, end).toString('latin1'), 16)
    if (Number.isNaN(size) || left.length < end + 4 + size)
      return { body: Buffer.concat(parts), left: Buffer.alloc(0), whole: false }
    if (size === 0) return { body: Buffer.concat(parts), left: left.subarray(end + 4), whole: true }
    parts.push(left.subarray(end + 2, end + 2 + size))
    left = left.subarray(end + 4 + size)
  }
}
