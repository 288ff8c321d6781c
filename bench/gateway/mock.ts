/** An engine that answers at once: Chat Completions on a bare socket, whole or as 50 events that are written together. */
import { createServer, type AddressInfo, type Socket } from 'node:net'

const STAMP = '000000000000'
const EVENTS = 50
const WORDS =
  'The build fails since the reader asks for a field that the record of the first version does not have; give it a default there and the old records can be read again, then run the tests of the part that writes them and look at what the second one says of its own offsets before you go on.'
    .split(' ')
    .slice(0, EVENTS - 1)

const head = (type: string, more: string): string => `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\n${more}\r\n\r\n`
const json = (value: unknown): Buffer => {
  const body = JSON.stringify(value)
  return Buffer.from(`${head('application/json', `content-length: ${Buffer.byteLength(body)}`)}${body}`)
}
const card = { id: 'mock', object: 'model', created: 1_700_000_000, owned_by: 'bench' }
const id = `chatcmpl-${STAMP}`
const usage = { prompt_tokens: 250, completion_tokens: EVENTS, total_tokens: 250 + EVENTS }
const models = json({ object: 'list', data: [card] })
const whole = json({
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
  `${head('text/event-stream', 'transfer-encoding: chunked')}${Buffer.byteLength(events).toString(16)}\r\n${events}\r\n0\r\n\r\n`,
)

const placesOf = (bytes: Buffer): number[] => {
  const places: number[] = []
  for (let at = bytes.indexOf(STAMP); at >= 0; at = bytes.indexOf(STAMP, at + STAMP.length)) places.push(at)
  return places
}
const places = new Map([
  [whole, placesOf(whole)],
  [stream, placesOf(stream)],
])
let answers = 0

/** No two answers are the same. */
const answer = (bytes: Buffer): Buffer => {
  const stamp = (++answers).toString(36).padStart(STAMP.length, 'a')
  const copy = Buffer.from(bytes)
  for (const at of places.get(bytes)!) copy.write(stamp, at, 'latin1')
  return copy
}

const serve = (socket: Socket): void => {
  let pieces: Buffer[] = []
  let have = 0
  let wanted = 0
  socket.setNoDelay(true)
  socket.on('error', () => undefined)
  socket.on('data', (bytes: Buffer) => {
    pieces.push(bytes)
    have += bytes.length
    if (wanted === 0) {
      const all = Buffer.concat(pieces)
      pieces = [all]
      const end = all.indexOf('\r\n\r\n')
      if (end < 0) return
      const text = all.toString('latin1', 0, end)
      if (text.startsWith('GET ')) {
        pieces = []
        have = 0
        socket.write(models)
        return
      }
      wanted = end + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0)
      // Who sends in chunks ends with an empty one.
      if (/\r\ntransfer-encoding: *chunked/i.test(text)) wanted = Infinity
    }
    if (wanted === Infinity ? !pieces.at(-1)!.subarray(-5).equals(LAST) : have < wanted) return
    const streams = pieces.some((piece) => piece.includes('"stream":true') || piece.includes('"stream": true'))
    pieces = []
    have = 0
    wanted = 0
    socket.write(answer(streams ? stream : whole))
  })
}
const LAST = Buffer.from('0\r\n\r\n')

const server = createServer(serve)
server.listen(0, '127.0.0.1', () => process.send!((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit(0))
