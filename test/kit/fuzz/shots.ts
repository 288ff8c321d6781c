/** One hostile request as bytes, determined by a seed and a number. */
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { bodyFor, idOf, type Ids } from './bodies.ts'
import { Dice } from './dice.ts'
import { bodyText, damaged, mutate } from './mutations.ts'
import { rawShot } from './raw.ts'

/** A path as in the OpenAPI document, with `{…}` for its parameters. */
export type Route = { method: string; path: string }
export type Target = {
  name: string
  routes: readonly Route[]
  ids: Ids
  /** Tokens; none for a gateway without keys. */ keys: readonly string[]
  bodyLimit: number
}

export type Shot = {
  index: number
  /** The fault of the request, if any; for diagnostics. */
  what: string[]
  target: string
  route: string
  method: string
  /** The target of the request line. */
  path: string
  /** Written one after another. */
  pieces: Buffer[]
  /** The body that the gateway gets; null if it is incomplete or undefined. */
  body: Buffer | null
  /** `sent`: after everything is written; `heard`: with the first bytes of the response. */
  leaves: 'never' | 'sent' | 'heard'
  /** A response is optional: it may be no request, or too large to wait for. */
  silence: boolean
  /** Its token, if it is one of the target's. */
  key: string | null
}

const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD', 'TRACE', 'PROPFIND', 'LOCK', 'QUERY']
const STRANGE_PATHS = [
  '/',
  '//',
  '/v1',
  '/v1/',
  '/v1/chat',
  '/V1/CHAT/COMPLETIONS',
  '/v1//chat/completions',
  '/v1/chat/completions/',
  '/v1/messages/../models',
  '/v1/models/%00',
  '/v1/models/%',
  '/v1/models/%zz',
  '/v1/models/%c0%80',
  `/v1/models/${'a'.repeat(600)}`,
  '/s//v1/models',
  '/s/%2e%2e/v1/models',
  '/s/%0d%0a/v1/chat/completions',
  '/admin/',
  '/admin/__proto__',
  '/admin/constructor',
  '/__proto__/1/v1/chat/completions',
  `/${'0'.repeat(32)}/%ff/v1/chat/completions`,
  '/?a',
  '/v1/models?__proto__[a]=1&a[]=2&a=%',
  '/submit_steps?channel[]=val&channel=%zz',
  '/v1/messages?beta=true',
  '*',
  'http://evil.example/v1/models',
  '/v1/chat/completions#x',
  '/ws',
  '/favicon.ico',
  '/.env',
  '/openapi.json?x=1',
]
const HEADERS = [
  'x-session-id',
  'x-instar-session-id',
  'x-instar-turn-kind',
  'x-instar-no-train',
  'x-turn-type',
  'x-claude-code-session-id',
  'x-claude-code-agent-id',
  'x-claude-code-request-class',
  'thread-id',
  'session-id',
  'session_id',
  'x-codex-turn-metadata',
  'x-openai-subagent',
  'x-opencode-session',
  'x-session-affinity',
  'x-parent-session-id',
  'x-client-request-id',
  'idempotency-key',
  'traceparent',
  'tracestate',
  'baggage',
  'anthropic-version',
  'anthropic-beta',
  'openai-organization',
  'user-agent',
  'accept',
  'accept-encoding',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-http-method-override',
  'x-instar-who',
  '__proto__',
  'constructor',
  'cookie',
  'range',
  'if-none-match',
  'expect-ct',
  'te',
  'via',
  'forwarded',
  'x-stainless-retry-count',
  'origin',
  'upgrade',
  'expect',
] as const
const HEADER_VALUES = [
  '',
  'main',
  'side',
  'true',
  '1',
  'subagent',
  'compaction',
  '{"request_kind":"subagent"}',
  '{"',
  '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  '00-0-0-0',
  '*/*',
  'application/x-ndjson',
  'text/event-stream',
  'gzip;q=0',
  'bytes=0-5',
  'http://evil.example',
  'null',
  '100-continue',
  '200-ok',
  'websocket',
  'h2c',
  '\t',
  'a, b, c',
  '=',
  'x'.repeat(700),
  'ÿþ',
  '"',
  '%00',
  '\u0080',
] as const
const TYPES = [
  'application/json',
  'application/json; charset=utf-16',
  'text/plain',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=b',
  'application/json; charset=',
  ';',
  '',
  'x',
  'application/vnd.api+json',
  `a/${'b'.repeat(300)}`,
  'text/html; charset="',
  'application/json, text/plain',
  '\u00ff/\u00fe',
]
const ENCODERS = { gzip: gzipSync, br: brotliCompressSync, deflate: deflateSync, zstd: zstdCompressSync } as const

const filled = (dice: Dice, ids: Ids, path: string): string =>
  path.replace(/\{(\w+)\}/g, (_, name: string) => {
    if (name === 'command')
      return dice.pick(['rollback', 'thaw', 'freeze', 'served', 'promote', 'replay', 'dance', '__proto__'])
    if (name === 'type') return dice.pick(['train', 'eval', 'x'])
    const known = {
      session: ['session', 'turn'],
      id: ['session', 'turn'],
      trajectory: ['trajectory'],
      episode: ['episode'],
      prompt: ['none'],
    }[name] ?? ['session']
    const id = dice.chance(0.1)
      ? dice.pick(['policy', 'policy@1', 'policy@9', '%', '%2f', '%00', '%F0%9F%98%80', 'a'.repeat(520), '..'])
      : idOf(dice, ids, ...known)
    return dice.chance(0.05) ? id : encodeURIComponent(id.toWellFormed()) || 'x'
  })

const latin1 = (text: string): Buffer => Buffer.from(text, 'latin1')

const headersOf = (dice: Dice, target: Target): { lines: string[]; key: string | null; strange: boolean } => {
  const lines = [
    `host: ${dice.chance(0.98) ? '127.0.0.1' : dice.pick(['evil.example', '', '127.0.0.1.evil.example', 'localhost@evil.example', '[::1', 'a b'])}`,
  ]
  const key = target.keys.length > 0 && dice.chance(0.92) ? dice.pick(target.keys) : null
  if (key !== null) lines.push(dice.chance(0.5) ? `authorization: Bearer ${key}` : `x-api-key: ${key}`)
  else if (dice.chance(0.2))
    lines.push(
      `authorization: ${dice.pick(['Bearer', 'Bearer ', 'Basic YTpi', `Bearer ${'x'.repeat(900)}`, 'bearer sk-wrong', 'Bearer a b'])}`,
    )
  const few = dice.chance(0.6) ? 0 : 1 + dice.below(4)
  const names = Array.from({ length: few }, () => dice.pick(HEADERS))
  for (const name of names)
    lines.push(`${name}: ${dice.pick([...HEADER_VALUES, ...(target.ids['session'] ?? []).slice(0, 4)])}`)
  return { lines, key, strange: names.some((name) => name === 'expect' || name === 'upgrade') }
}

/** The body in chunks of the sender's sizes. */
const chunked = (dice: Dice, body: Buffer): Buffer[] => {
  const pieces: Buffer[] = []
  for (let from = 0; from < body.length;) {
    const size = Math.min(body.length - from, 1 + dice.below(dice.pick([4, 200, 70_000])))
    pieces.push(
      latin1(`${size.toString(16)}${dice.chance(0.1) ? ';ext="a"' : ''}\r\n`),
      body.subarray(from, from + size),
      latin1('\r\n'),
    )
    from += size
    if (pieces.length > 300) {
      const rest = body.subarray(from)
      if (rest.length > 0) pieces.push(latin1(`${rest.length.toString(16)}\r\n`), rest, latin1('\r\n'))
      break
    }
  }
  return [...pieces, latin1(dice.chance(0.9) ? '0\r\n\r\n' : '0\r\nx-trailer: 1\r\n\r\n')]
}

/** Request `index` of a run with `seed`. The same target gives the same bytes. */
export const shotOf = (seed: number, index: number, targets: readonly Target[]): Shot => {
  const dice = new Dice(Math.imul(seed, 1_000_003) + index)
  const target = targets[dice.chance(0.65) ? 0 : targets.length - 1]!
  const shot = {
    index,
    target: target.name,
    route: 'none',
    method: 'GET',
    path: '/',
    key: null,
    body: null,
    silence: false,
    leaves: 'never' as const,
  }
  if (dice.chance(0.07)) return { ...shot, ...rawShot(dice, target) }

  const what: string[] = []
  const route = dice.pick(target.routes)
  const weighted = dice.chance(0.45)
    ? dice.pick(target.routes.filter(({ path }) => /\/(chat\/completions|responses|messages)$/.test(path)))
    : route
  const strange = dice.chance(0.04)
  const path = strange ? dice.pick(STRANGE_PATHS) : filled(dice, target.ids, weighted.path)
  const method = dice.chance(0.96) ? weighted.method : dice.pick(METHODS)
  if (strange) what.push('path')
  if (method !== weighted.method) what.push('method')
  const { lines, key, strange: mayBeSilent } = headersOf(dice, target)

  const value = bodyFor(dice, target.ids, weighted.path)
  const changes = dice.chance(0.35) ? 0 : 1 + dice.below(3)
  for (let i = 0; i < changes; i += 1) mutate(dice, value)
  if (changes > 0) what.push(`${changes} values`)
  let body: Buffer = Buffer.from(bodyText(dice, value).toWellFormed())
  if (dice.chance(0.12)) {
    body = damaged(dice, body.toString())
    what.push('bytes')
  }
  if (weighted.method === 'GET' && dice.chance(0.8)) body = Buffer.alloc(0)
  const seen = body
  lines.push(`content-type: ${dice.chance(0.9) ? 'application/json' : dice.pick(TYPES)}`)

  let known = true
  if (body.length > 0 && dice.chance(0.08)) {
    const name = dice.pick(['gzip', 'br', 'deflate', 'zstd'] as const)
    const sent = dice.pick(['whole', 'whole', 'cut', 'other', 'bomb'] as const)
    what.push(`${name} ${sent}`)
    known = sent === 'whole'
    lines.push(
      `content-encoding: ${sent === 'other' ? dice.pick(['gzip, gzip', 'compress', 'GZIP', '*', 'zstd', 'identity, br', 'x'.repeat(90)]) : name}`,
    )
    body = ENCODERS[name](sent === 'bomb' ? Buffer.alloc(3 * target.bodyLimit, 32) : body)
    if (sent === 'cut') body = body.subarray(0, dice.below(body.length))
  }

  const how = dice.below(100)
  const leaves = how < 3 ? 'sent' : how < 7 ? 'heard' : 'never'
  const head = (...more: string[]): Buffer =>
    latin1(`${method} ${path} HTTP/1.1\r\n${[...lines, ...more, 'connection: close'].join('\r\n')}\r\n\r\n`)
  let pieces: Buffer[]
  if (how >= 7 && how < 11 && body.length > 0) {
    what.push('gone in its body')
    pieces = [head(`content-length: ${body.length}`), body.subarray(0, dice.below(body.length))]
    return {
      ...shot,
      what,
      route: `${weighted.method} ${weighted.path}`,
      method,
      path,
      pieces,
      key,
      leaves: 'sent',
      silence: true,
    }
  }
  if (how >= 11 && how < 20) {
    what.push('chunks')
    pieces = [head('transfer-encoding: chunked'), ...chunked(dice, body)]
  } else pieces = [head(...(body.length > 0 || method !== 'GET' ? [`content-length: ${body.length}`] : [])), body]
  if (leaves !== 'never') what.push(`leaves when ${leaves}`)
  return {
    ...shot,
    what,
    route: `${weighted.method} ${weighted.path}`,
    method,
    path,
    pieces,
    key,
    leaves,
    body: known && leaves !== 'sent' ? seen : null,
    silence: leaves === 'sent' || mayBeSilent || body.length > target.bodyLimit,
  }
}

/** The request in a readable form that can be sent again. */
export const readable = ({ index, what, target, pieces }: Shot): string =>
  `request ${index} to ${target} (${what.join(', ') || 'nothing wrong with it'}):\n${JSON.stringify(Buffer.concat(pieces).toString('latin1').slice(0, 4000))}`
