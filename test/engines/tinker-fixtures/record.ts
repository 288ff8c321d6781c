/**
 * A proxy that records the exchanges of a client with a Tinker server, one JSON line each.
 *
 *   node record.ts http://127.0.0.1:18400 FILE [PORT]
 *
 * `POST /record` with a JSON string names the exchanges that follow. Left out: heartbeats, telemetry, polls that were
 * answered with "try again", and headers apart from the content type and `location`. Addresses of this machine become
 * `http://server`.
 */
import { appendFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import type { Exchange, RecordedBody } from './exchanges.ts'

const [, , upstream = '', file = '', port = '18409'] = process.argv
const LEFT_OUT = /\/(session_heartbeat|telemetry)$/
const LOCAL = /http:\/\/(127\.0\.0\.1|localhost):\d+/g

const recorded = (type: string, bytes: Buffer): RecordedBody => {
  if (bytes.length === 0) return null
  if (type.includes('json')) return { text: bytes.toString().replaceAll(LOCAL, 'http://server') }
  return { base64: bytes.toString('base64') }
}

let scene = ''
writeFileSync(file, '')
createServer(async (incoming, outgoing) => {
  const { method = 'GET', url = '/' } = incoming
  if (url === '/record') {
    scene = JSON.parse(await text(incoming)) as string
    outgoing.end()
    return
  }
  const sent: Buffer[] = []
  for await (const part of incoming) sent.push(part as Buffer)
  const body = Buffer.concat(sent)
  const type = incoming.headers['content-type'] ?? ''
  const headers = Object.fromEntries(
    Object.entries(incoming.headers).filter(([name]) => /^(content-type|content-encoding|accept|x-)/.test(name)),
  ) as Record<string, string>
  try {
    const response = await fetch(`${upstream}${url}`, {
      method,
      headers,
      body: body.length > 0 ? body : null,
      redirect: 'manual',
    })
    const bytes = Buffer.from(await response.arrayBuffer())
    const answered = response.headers.get('content-type') ?? ''
    const location = response.headers.get('location')
    outgoing.writeHead(response.status, {
      'content-type': answered,
      ...(location === null ? {} : { location: location.replace(upstream, `http://127.0.0.1:${port}`) }),
    })
    outgoing.end(bytes)
    if (LEFT_OUT.test(url) || bytes.includes('"try_again"')) return
    const encoding = incoming.headers['content-encoding']
    const exchange: Exchange = {
      scene,
      method,
      path: url,
      ...(typeof encoding === 'string' ? { encoding } : {}),
      type,
      request: recorded(type, body),
      status: response.status,
      answered,
      ...(location === null ? {} : { location: location.replaceAll(LOCAL, 'http://server') }),
      response: recorded(answered, bytes),
    }
    appendFileSync(file, `${JSON.stringify(exchange)}\n`)
  } catch (error) {
    outgoing.writeHead(502).end(String(error))
  }
}).listen(Number(port), '127.0.0.1', () => process.stdout.write(`recording on ${port}\n`))
