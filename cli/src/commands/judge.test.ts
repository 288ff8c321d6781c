import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { folder, instar } from '../../../test/kit/cli.ts'
import { MAX_CASE_BYTES, numberedLines } from '../judging.ts'

const REQUEST = 'What is the capital of Australia?'
const ANSWER = 'The capital of Australia is Sydney.'
const line = (next: unknown): string => JSON.stringify({ request: REQUEST, answer: ANSWER, next })
const judge = (input: string, args: readonly string[] = [], env: Record<string, string> = {}) =>
  instar(['judge', '--json', ...args], { INSTAR_DATA: folder(), ...env }, '/', input)
const parsed = (out: string) =>
  out
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text) as { value: number | null; hint: string | null; judge: string })

test('prints one verdict for each case, in order; tools are strings or objects; next may be missing', async () => {
  const cases = [
    line({ user: 'Thank you, perfect!' }),
    '',
    line({ user: "No, it's Canberra.", tools: [] }),
    line({ user: 'What do koalas eat?' }),
    line({ user: '', tools: ['Tests: 3 failed, 41 passed, 44 total'] }),
    line({ tools: [{ name: 'jest', content: 'Tests: 3 failed, 41 passed, 44 total' }] }),
    line(null),
    JSON.stringify({ request: REQUEST, answer: ANSWER }),
  ]
  const { code, out, err } = await judge(`${cases.join('\n')}\r\n`)
  equal(err, '')
  equal(code, 0)
  const verdicts = parsed(out)
  deepEqual(
    verdicts.map(({ value }) => value),
    [1, -1, null, -1, -1, null, null],
  )
  match(verdicts[1]!.hint ?? '', /Canberra/)
  for (const { judge: id } of verdicts) match(id, /^reactions-[0-9a-f]{12}$/)
  equal((await judge(cases.join('\n'))).out, out, 'the same cases give the same lines')
  equal((await judge(cases.join('\n'), ['--judge', 'signals'])).out, out, 'the former name')
})

test('prints nothing without a case, and text without --json', async () => {
  deepEqual([(await judge('\n\n')).out, (await judge('')).code], ['', 0])
  const { out } = await instar(
    ['judge'],
    { INSTAR_DATA: folder() },
    '/',
    `${line({ user: 'Thanks!' })}\n${line({ user: 'hm' })}`,
  )
  equal(out, '1\n?\n')
})

test('the error of an invalid line names its number and follows the verdicts before', async () => {
  for (const [bad, why] of [
    ['{', /Line 3: it is not JSON/],
    ['[]', /Line 3: the case: /],
    ['{"request": 1, "answer": "b"}', /Line 3: request: /],
    ['{"request": "a", "answer": "b", "next": {"tools": [1]}}', /Line 3: next\.tools\.0: /],
  ] as const) {
    const { code, out, err } = await judge(`${line({ user: 'Thanks!' })}\n\n${bad}\n${line({ user: 'Thanks!' })}\n`)
    equal(code, 1)
    match(err, why)
    const [first, error, ...more] = out.trim().split('\n')
    equal((JSON.parse(first!) as { value: number }).value, 1)
    equal((JSON.parse(error!) as { error: { code: string } }).error.code, 'bad_request')
    deepEqual(more, [])
  }
})

test('an unknown judge and one without settings are usage errors', async () => {
  for (const name of ['nope', 'llm']) {
    const { code, err } = await judge('', ['--judge', name])
    equal(code, 2)
    match(err, /usage: instar judge/)
  }
})

test('lines are read from any chunks, up to MAX_CASE_BYTES', async () => {
  const read = async (chunks: readonly Uint8Array[]): Promise<string[]> => {
    const texts: string[] = []
    for await (const { text } of numberedLines(
      (async function* () {
        yield* chunks
      })(),
    ))
      texts.push(text)
    return texts
  }
  const longest = Buffer.alloc(MAX_CASE_BYTES, 'x')
  deepEqual(
    (await read([longest])).map((text) => text.length),
    [MAX_CASE_BYTES],
  )
  await rejects(read([longest, Buffer.from('x')]), {
    code: 'bad_request',
    message: /Line 1: it is longer than 8388608 bytes/,
  })
  const word = Buffer.from('é\nb')
  deepEqual(await read([word.subarray(0, 1), word.subarray(1)]), ['é', 'b'])
  await rejects(read([Buffer.from([0xff, 10])]), { message: /Line 1: it is not UTF-8/ })
})

test('the configured judge gets several cases at a time, and verdicts keep the order of the cases', async (t) => {
  const bodies: string[] = []
  let open = 0
  let mostOpen = 0
  const server = createServer((request, response) => {
    mostOpen = Math.max(mostOpen, ++open)
    let body = ''
    request.on('data', (chunk) => (body += String(chunk)))
    request.on('end', () => {
      const good = body.includes('fine')
      bodies.push(body)
      open -= 1
      response.end(
        JSON.stringify({
          choices: [{ message: { content: JSON.stringify({ verdict: good ? 'good' : 'bad', hint: '' }) } }],
        }),
      )
    })
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const env = { INSTAR_JUDGE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1` }
  const cases = Array.from({ length: 12 }, (_, i) => line({ user: i % 3 === 0 ? 'fine' : 'no' })).join('\n')
  const { code, out } = await judge(cases, [], env)
  equal(code, 0)
  deepEqual(
    parsed(out).map(({ value }) => value),
    Array.from({ length: 12 }, (_, i) => (i % 3 === 0 ? 1 : -1)),
  )
  match(parsed(out)[0]!.judge, /^llm-/)
  equal(bodies.length, 36, 'three votes each')
  ok(mostOpen <= 12, `${mostOpen} requests at once`)
  equal((await judge(line({ user: 'Thanks!' }), ['--judge', 'reactions'], env)).code, 0)
  equal(bodies.length, 36, '--judge reactions sends no request')
})
