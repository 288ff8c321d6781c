/**
 * An engine without computation: Chat Completions on a TCP socket. The answer is one body, or 50 events in one write.
 */
import { createServer, type AddressInfo, type Socket } from 'node:net'

/** Placeholder that makes each answer different. */
const STAMP = '000000000000'
const EVENTS = 50
const WORDS =
  'The build fails since the reader asks for a field that the record of the first version does not have; give it a default there and the old records can be read again, then run the tests of the part that writes them and look at what the second one says of its own offsets before you go on.'
    .split(' ')
    .slice(0, EVENTS - 1)

const headOf = (type: string, header: string): string => `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\n${header}\r\n\r\n`
const json = (value: unknown): Buffer => {
  const body = JSON.stringify(value)
  return Buffer.from(`${headOf('application/json', `content-length: ${Buffer.byteLength(body)}`)}${body}`)
}
const modelCard = { id: 'mock', object: 'model', created: 1_700_000_000, owned_by: 'bench' }
const id = `chatcmpl-${STAMP}`
const usage = { prompt_tokens: 250, completion_tokens: EVENTS, total_tokens: 250 + EVENTS }
const models = json({ object: 'list', data: [modelCard] })
const body = json({
  id,
  object: 'chat.completion',
  created: 1_700_000_000,
  model: 'mock',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: `${STAMP} ${WORDS.join(' ')}`, refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ],
  usage,
})

const event = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`
const chunk = (delta: object, finish: string | null): string =>
  event({
    id,
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model: 'mock',
    choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }],
  })
const events = [
  chunk({ role: 'assistant', content: '' }, null),
  chunk({ content: STAMP }, null),
  ...WORDS.map((word) => chunk({ content: ` ${word}` }, null)),
  chunk({}, 'stop'),
  event({ id, object: 'chat.completion.chunk', created: 1_700_000_000, model: 'mock', choices: [], usage }),
  'data: [DONE]\n\n',
].join('')
const stream = Buffer.from(
  `${headOf('text/event-stream', 'transfer-encoding: chunked')}${Buffer.byteLength(events).toString(16)}\r\n${events}\r\n0\r\n\r\n`,
)

const stampOffsets = (bytes: Buffer): number[] => {
  const offsets: number[] = []
  for (let at = bytes.indexOf(STAMP); at >= 0; at = bytes.indexOf(STAMP, at + STAMP.length)) offsets.push(at)
  return offsets
}
const offsets = new Map([
  [body, stampOffsets(body)],
  [stream, stampOffsets(stream)],
])
let answers = 0

/** A copy of the answer with a new stamp. */
const stamped = (bytes: Buffer): Buffer => {
  const stamp = (++answers).toString(36).padStart(STAMP.length, 'a')
  const copy = Buffer.from(bytes)
  for (const at of offsets.get(bytes)!) copy.write(stamp, at, 'latin1')
  return copy
}

const serve = (socket: Socket): void => {
  let chunks: Buffer[] = []
  let receivedBytes = 0
  /** Of the request; 0: its head is incomplete; Infinity: it is chunked. */
  let requestBytes = 0
  socket.setNoDelay(true)
  socket.on('error', () => undefined)
  socket.on('data', (bytes: Buffer) => {
    chunks.push(bytes)
    receivedBytes += bytes.length
    if (requestBytes === 0) {
      const all = Buffer.concat(chunks)
      chunks = [all]
      const end = all.indexOf('\r\n\r\n')
      if (end < 0) return
      const text = all.toString('latin1', 0, end)
      if (text.startsWith('GET ')) {
        chunks = []
        receivedBytes = 0
        socket.write(models)
        return
      }
      requestBytes = end + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0)
      if (/\r\ntransfer-encoding: *chunked/i.test(text)) requestBytes = Infinity
    }
    const complete =
      requestBytes === Infinity ? chunks.at(-1)!.subarray(-5).equals(LAST_CHUNK) : receivedBytes >= requestBytes
    if (!complete) return
    const streams = chunks.some((chunk) => chunk.includes('"stream":true') || chunk.includes('"stream": true'))
    chunks = []
    receivedBytes = 0
    requestBytes = 0
    socket.write(stamped(streams ? stream : body))
  })
}
const LAST_CHUNK = Buffer.from('0\r\n\r\n')

const server = createServer(serve)
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit(0))
