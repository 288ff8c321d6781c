/** Bytes that are no request, or two at once, written to the socket unchanged. */
import type { Dice } from './dice.ts'
import type { Shot, Target } from './shots.ts'

const HELLO = '{"model":"policy","max_tokens":4,"messages":[{"role":"user","content":"Hi"}]}'
const PATH = '/v1/chat/completions'

/** Each of them ends the connection: by a header, by an error, or by disconnecting. */
export const rawShot = (
  dice: Dice,
  { keys }: Target,
): Pick<Shot, 'what' | 'pieces' | 'leaves' | 'silence' | 'path' | 'method'> => {
  const key = keys.length > 0 ? `authorization: Bearer ${dice.pick(keys)}\r\n` : ''
  const fixed = `host: 127.0.0.1\r\n${key}content-type: application/json\r\n`
  const post = (headers: string, body: string, path = PATH): string =>
    `POST ${path} HTTP/1.1\r\n${fixed}${headers}\r\n${body}`
  const close = 'connection: close\r\n'
  const whole = `content-length: ${HELLO.length}\r\n`
  const get = `GET /v1/models HTTP/1.1\r\n${fixed}${close}\r\n`
  const path = dice.pick([PATH, '/v1/messages', '/v1/responses', '/s/raw/v1/messages', '/v1/feedback'])
  const cases: readonly (readonly [what: string, bytes: string, leaves?: 'sent' | 'heard', silence?: boolean])[] = [
    [
      'length and chunks',
      post(
        `${whole}transfer-encoding: chunked\r\n${close}`,
        `0\r\n\r\nGET /admin/status HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n`,
        path,
      ),
    ],
    ['two lengths', post(`${whole}content-length: 3\r\n${close}`, HELLO, path)],
    ['the same length twice', post(`${whole}${whole}${close}`, HELLO, path)],
    ['a list of lengths', post(`content-length: ${HELLO.length}, ${HELLO.length}\r\n${close}`, HELLO, path)],
    [
      'no number for a length',
      post(
        `content-length: ${dice.pick(['-1', '+5', '0x10', '1e2', ' ', '99999999999999999999', '4 4'])}\r\n${close}`,
        HELLO,
        path,
      ),
    ],
    ['chunked twice', post(`transfer-encoding: chunked, chunked\r\n${close}`, '0\r\n\r\n', path)],
    [
      'chunked by another name',
      post(
        `transfer-encoding: ${dice.pick(['xchunked', 'chunked;a', 'identity', 'gzip, chunked', '\u000bchunked', 'chunked\t'])}\r\n${close}`,
        '0\r\n\r\n',
        path,
      ),
      'heard',
      true,
    ],
    [
      'a chunk of no size',
      post(
        `transfer-encoding: chunked\r\n${close}`,
        `${dice.pick(['zz', '-1', '0x5', 'fffffffffffffffff', '5 5', ''])}\r\n${HELLO}\r\n0\r\n\r\n`,
        path,
      ),
    ],
    [
      'a chunk that is longer than it says',
      post(`transfer-encoding: chunked\r\n${close}`, `3\r\n${HELLO}\r\n0\r\n\r\n`, path),
    ],
    ['the end of lines is bare', post(`${whole}${close}`, HELLO, path).replaceAll('\r\n', '\n')],
    ['a folded header', post(`x-session-id: a\r\n b\r\n${whole}${close}`, HELLO, path)],
    ['a blank before the colon', post(`x-session-id : a\r\n${whole}${close}`, HELLO, path)],
    ['a header with a NUL', post(`x-session-id: a\u0000b\r\n${whole}${close}`, HELLO, path)],
    ['a header without a name', post(`: a\r\n${whole}${close}`, HELLO, path)],
    ['a header that is too long', post(`x-session-id: ${'a'.repeat(20_000)}\r\n${whole}${close}`, HELLO, path)],
    ['headers without end', post(`${'x-a: b\r\n'.repeat(1900)}${whole}${close}`, HELLO, path)],
    ['no host', `POST ${path} HTTP/1.1\r\ncontent-type: application/json\r\n${whole}${close}\r\n${HELLO}`],
    ['two hosts', post(`host: evil.example\r\n${whole}${close}`, HELLO, path)],
    ['HTTP/1.0', post(whole, HELLO, path).replace('HTTP/1.1', 'HTTP/1.0')],
    ['HTTP/0.9', `GET /v1/models\r\n\r\n`],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['HTTP/9.9', get.replace('1.1', '9.9')],
    ['TLS', `\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003${dice.hex(60)}`],
    [
      'nonsense',
      dice
        .bytes(1 + dice.below(200))
        .toString('latin1')
        .concat('\r\n\r\n'),
    ],
    ['a method of nobody', get.replace('GET', dice.pick(['FOO', 'get', 'GE T', 'G\u0000T', '', 'POSTPOSTPOST']))],
    ['CONNECT', `CONNECT evil.example:443 HTTP/1.1\r\n${fixed}\r\n`, undefined, true],
    ['CONNECT, and a request', `CONNECT 127.0.0.1:1 HTTP/1.1\r\n${fixed}\r\n${get}`, undefined, true],
    [
      'an upgrade',
      get.replace(
        close,
        'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n',
      ),
      'heard',
      true,
    ],
    [
      'an upgrade to h2c',
      get.replace(close, 'connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAA\r\n'),
      'heard',
      true,
    ],
    [
      'what it expects is not to be had',
      post(
        `${whole}expect: ${dice.pick(['202-ok', 'x', '100-continue, x', 'a'.repeat(300)])}\r\n${close}`,
        HELLO,
        path,
      ),
    ],
    ['it waits to be told to go on', post(`${whole}expect: 100-continue\r\n${close}`, HELLO, path)],
    ['two at once', post(whole, HELLO) + get],
    ['one smuggled behind another', post(`content-length: 5\r\n`, HELLO) + get],
    ['sixteen at once', post(whole, HELLO).repeat(15) + get],
    ['bytes behind the end', post(`${whole}${close}`, `${HELLO}GET /admin/status HTTP/1.1\r\n\r\n`, path)],
    ['nothing', '', 'sent', true],
    ['half a line', 'POST /v1/cha', 'sent', true],
    ['half the headers', post(whole, '').slice(0, 60), 'sent', true],
    ['a line without end', `GET /${'a'.repeat(70_000)}`, 'heard', true],
    ['a line that is too long', `GET /${'a'.repeat(dice.pick([300, 9000, 40_000]))} HTTP/1.1\r\n${fixed}${close}\r\n`],
    [
      'characters of no URL',
      get.replace(
        '/v1/models',
        dice.pick([
          '/v1/mo dels',
          '/v1/\u0000',
          '/v1/\u00ff',
          '\\v1\\models',
          '/v1/"<>',
          'v1/models',
          '//evil.example/v1/models',
          'http://[::1',
          'http:////',
          '/v1/models?\u0001',
        ]),
      ),
    ],
  ]
  const [what, bytes, leaves = 'never', silence = false] = dice.pick(cases)
  return { what: [what], pieces: [Buffer.from(bytes, 'latin1')], leaves, silence, method: 'raw', path }
}
