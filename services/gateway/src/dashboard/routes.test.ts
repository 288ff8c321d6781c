import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { AGENT_NAMES } from '@instar/agents'
import { openMemoryLog } from '@instar/log'
import type { ReadModel } from '@instar/projections/read-model'
import { ADMIN_TOKEN, startRig, turnsOf, type Rig, type RigOptions } from '../../../../test/kit/gateway.ts'
import type { Scope } from '../receive/core/keys.ts'

const hash = (token: string): string => createHash('sha256').update(token).digest('hex')
const tokenOf = (id: string): string => `sk-instar-${id}-secret`
const key = (id: string, scopes: Scope[]) => ({ id, sha256: hash(tokenOf(id)), scopes })

const VERDICTS = [{ judge: 'llm', value: -1, note: 'They said 12.' }]

/** Says which method was called, and with what. */
const readModel = (): ReadModel => {
  const page = async (rows: Record<string, unknown>[]) => ({ rows, next: null })
  return {
    versions: async () => [{ version: 1 }],
    version: async (version) => (version === 1 ? { version } : null),
    lineage: async () => ({
      updates: [],
      moves: [],
      freezes: [],
      branches: [],
      refusals: [],
      judges: [{ judge: 'reactions-1' }],
      next: null,
    }),
    batch: async (version, from = 0) => ({ rows: [{ version, from }], next: from === 0 ? 200 : null }),
    older: async (until) => ({ versions: [{ until }], updates: [], moves: [], freezes: [], refusals: [], next: null }),
    rejected: async () => null,
    learnedFrom: async () => null,
    sessions: (filter, after) => page([{ filter, after }]),
    session: async (id) => (id === 'known' ? { session_id: id } : null),
    sessionTurns: (id, after) => page([{ id, after }]),
    turn: async (id) => ({ turn_id: id, session_id: 's', group_id: 'g', hint: 'Say 12.', verdicts: VERDICTS }),
    group: async (session, id) => [{ session, id, hint: 'Say 12.' }],
    learning: async () => ({
      step: 10,
      times: [],
      by_version: [],
      judges: [],
      subjects: Array.from({ length: 120 }, (_, n) => ({ name: `person ${n}` })),
      keys: [{ name: null }],
      subject_curves: [],
      key_curves: [],
    }),
    inspect: async () => ({
      version: 'PostgreSQL 18',
      migrations: { state: 'older', applied: 1, ours: 2 },
      marks: [],
    }),
    close: async () => undefined,
  }
}

const start = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  const rig = await startRig({ ...options, ports: { readModel: readModel(), ...options.ports } })
  t.after(() => rig.stop())
  return rig
}

type Fetched = { status: number; body: Record<string, unknown>; cookie: string | null; headers: Headers }
const ask = async (rig: Rig, path: string, init: RequestInit & { json?: unknown } = {}): Promise<Fetched> => {
  const response = await rig.fetch(path, init)
  const text = await response.text()
  const cookie = response.headers.get('set-cookie')?.split(';')[0] ?? null
  return {
    status: response.status,
    body: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : {},
    cookie,
    headers: response.headers,
  }
}
const codeOf = ({ body }: Fetched): string => (body['error'] as { code: string } | undefined)?.code ?? ''

const signIn = async (rig: Rig): Promise<{ cookie: string; csrf: string }> => {
  const link = await ask(rig, '/admin/dashboard-link', { json: {} })
  const code = String(link.body['path']).slice('/#code='.length)
  const session = await ask(rig, '/v1/dashboard/session', { json: { code } })
  assert.equal(session.status, 200)
  return { cookie: session.cookie!, csrf: String(session.body['csrf']) }
}

test('the page and its files are served to anybody, with a policy that allows no script but its own', async (t) => {
  const rig = await start(t, { settings: { keys: [key('one', ['inference'])] } })
  for (const [path, type] of [
    ['/', 'text/html'],
    ['/dashboard/app.ts', 'text/javascript'],
    ['/dashboard/vendor/preact.js', 'text/javascript'],
    ['/dashboard/style.css', 'text/css'],
  ] as const) {
    const response = await rig.fetch(path)
    assert.equal(response.status, 200, path)
    assert.match(response.headers.get('content-type') ?? '', new RegExp(`^${type}`), path)
    assert.match(response.headers.get('content-security-policy') ?? '', /script-src 'self'.*frame-ancestors 'none'/)
    const text = await response.text()
    assert.doesNotMatch(text, /from ["'][a-z@]/, `${path} imports a package by its name`)
    const again = await rig.fetch(path, { headers: { 'if-none-match': response.headers.get('etag')! } })
    assert.equal(again.status, 304)
  }
  for (const path of ['/dashboard/../../package.json', '/dashboard/%2e%2e/package.json', '/dashboard/x', '/dashboard/'])
    assert.ok([401, 404].includes((await rig.fetch(path)).status), path)
})

test('with keys: numbers need read or admin, texts need read', async (t) => {
  const rig = await start(t, {
    settings: { keys: [key('none', ['inference']), key('read', ['read']), key('admin', ['admin'])] },
  })
  const as = (id: string, path: string) =>
    ask(rig, `/v1/dashboard/${path}`, { headers: { authorization: `Bearer ${tokenOf(id)}` } })
  assert.deepEqual(codeOf(await ask(rig, '/v1/dashboard/versions')), 'invalid_api_key')
  assert.deepEqual(codeOf(await as('none', 'versions')), 'missing_scope')
  for (const id of ['read', 'admin']) assert.equal((await as(id, 'versions')).status, 200, id)
  assert.deepEqual(codeOf(await as('admin', 'turns/x/text')), 'missing_scope')
  assert.deepEqual(codeOf(await as('read', 'turns/x/text')), 'unknown_turn')
  for (const [id, hint, note] of [
    ['read', 'Say 12.', 'They said 12.'],
    ['admin', null, ''],
  ] as const) {
    const { turn, group } = (await as(id, 'turns/x')).body as unknown as {
      turn: { hint: string | null; verdicts: { note: string }[] }
      group: { hint: string | null }[]
    }
    assert.deepEqual([turn.hint, turn.verdicts[0]!.note, group[0]!.hint], [hint, note, hint], id)
  }
  assert.deepEqual((await as('none', 'session')).body['may'], null)
  assert.deepEqual((await as('read', 'session')).body['may'], { text: true, actions: false })
  assert.deepEqual((await as('admin', 'session')).body['may'], { text: false, actions: true })
})

test('versions and learning are sent again, and made into bytes again, only when they have changed', async (t) => {
  let [asked, made] = [0, 0]
  const model = readModel()
  const lineage = await model.lineage()
  /** Counts how often it is made into JSON. */
  const row = (version: number) => ({ version, counted: { toJSON: () => (made += 1) && version } })
  let versions: Record<string, unknown>[] = [row(1)]
  const figures = await model.learning()
  const own: ReadModel = {
    ...model,
    versions: async () => ((asked += 1), versions),
    lineage: async () => lineage,
    learning: async () => figures,
  }
  const rig = await start(t, { ports: { readModel: own } })
  const read = (path: string, headers: Record<string, string> = {}) =>
    rig.fetch(`/v1/dashboard/${path}`, { headers: { 'accept-encoding': 'identity', ...headers } })
  for (const path of ['versions', 'learning']) {
    ;[asked, made, versions] = [0, 0, [row(1)]]
    const first = await read(path)
    const whole = (await first.json()) as { versions: object[] }
    const etag = first.headers.get('etag')!
    assert.deepEqual(whole.versions, [{ version: 1, counted: 1 }])
    assert.equal(first.headers.get('cache-control'), 'no-store')
    const packed = await read(path, { 'accept-encoding': 'gzip' })
    assert.equal(packed.headers.get('content-encoding'), 'gzip')
    assert.deepEqual(await packed.json(), whole)
    const again = await read(path, { 'if-none-match': etag })
    assert.deepEqual([again.status, await again.text()], [304, ''])
    assert.deepEqual([asked, made], [3, 1], path)
    versions = [row(2), row(1)]
    const changed = await read(path, { 'if-none-match': etag })
    assert.equal(changed.status, 200)
    assert.equal(((await changed.json()) as { versions: object[] }).versions.length, 2)
    assert.notEqual(changed.headers.get('etag'), etag)
  }
})

test('older versions and events, and further turns of a batch, are read from where the ones before end', async (t) => {
  const rig = await start(t)
  const of = (path: string) => ask(rig, `/v1/dashboard/${path}`)
  const until = '2026-01-01T00:00:00.000Z'
  assert.equal((await of('versions')).body['next'], null)
  assert.deepEqual((await of(`versions?until=${until}`)).body['versions'], [{ until }])
  const { turns, next } = (await of('versions/1')).body
  assert.deepEqual([turns, next], [[{ version: 1, from: 0 }], 200])
  assert.deepEqual((await of('versions/1/turns?after=200')).body, { rows: [{ version: 1, from: 200 }], next: null })
  for (const path of ['versions?until=x', 'versions?other=1', 'versions/1/turns?after=-1', 'versions/1/turns?x=1'])
    assert.deepEqual([path, codeOf(await of(path))], [path, 'bad_request'])
  for (const path of ['versions/99999999999', 'versions/x'])
    assert.equal(codeOf(await of(path)), 'unknown_version', path)
})

test('callers are read in pages, by person or by key', async (t) => {
  const rig = await start(t)
  type Page = { rows: { name: string | null }[]; next: number | null }
  const page = async (query: string) => (await ask(rig, `/v1/dashboard/callers?${query}`)).body as Page
  const learning = (await ask(rig, '/v1/dashboard/learning')).body as { subjects: Page; keys: Page }
  assert.deepEqual([learning.subjects.rows.length, learning.subjects.next, learning.keys.next], [50, 50, null])
  assert.deepEqual(await page('by=subject'), learning.subjects)
  const last = await page('by=subject&after=100')
  assert.deepEqual([last.rows.length, last.rows[0]?.name, last.next], [20, 'person 100', null])
  assert.deepEqual(await page('by=key'), { rows: [{ name: null }], next: null })
  for (const query of ['', 'by=x', 'by=key&after=-1', 'by=key&x=1'])
    assert.equal((await ask(rig, `/v1/dashboard/callers?${query}`)).status, 400, query)
})

test('a key for an agent is created where requests need one, shown once, and may do what an agent does', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-agent-key-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const keyFile = join(folder, 'keys.json')
  const open = await start(t, { settings: { keyFile } })
  const refused = await ask(open, '/admin/agent-key', { json: {} })
  assert.deepEqual([codeOf(refused), existsSync(keyFile)], ['not_available', false])
  const rig = await start(t, { settings: { keyFile, keys: [key('reader', ['read']), key('chief', ['admin'])] } })
  const as = (token: string) => ({ authorization: `Bearer ${token}` })
  assert.equal(
    codeOf(await ask(rig, '/admin/agent-key', { json: {}, headers: as(tokenOf('reader')) })),
    'missing_scope',
  )
  const made = await ask(rig, '/admin/agent-key', { json: { name: 'mine' }, headers: as(tokenOf('chief')) })
  assert.equal(made.status, 200)
  assert.equal(made.headers.get('cache-control'), 'no-store')
  assert.deepEqual(made.body['scopes'], ['inference', 'feedback', 'train'])
  const stored = readFileSync(keyFile, 'utf8')
  assert.ok(stored.includes(String(made.body['id'])) && !stored.includes(String(made.body['token'])))
  assert.equal(
    codeOf(await ask(rig, '/admin/agent-key', { json: {}, headers: as(String(made.body['token'])) })),
    'missing_scope',
  )
})

test('without keys: texts on the loopback alone, actions never without a session', async (t) => {
  const local = await start(t)
  assert.deepEqual((await ask(local, '/v1/dashboard/session')).body['may'], { text: true, actions: false })
  const open = await start(t, { settings: { host: '0.0.0.0', open: true } })
  const url = open.url.replace('0.0.0.0', '127.0.0.1')
  const fetched = await fetch(`${url}/v1/dashboard/session`)
  assert.deepEqual(((await fetched.json()) as { may: unknown }).may, { text: false, actions: false })
  assert.equal((await fetch(`${url}/v1/dashboard/turns/x/text`)).status, 403)
})

test('a session of a link acts with its token, from its own page alone, and its link works once', async (t) => {
  const rig = await start(t, { settings: { keys: [key('one', ['inference'])] }, log: openMemoryLog() })
  const link = await ask(rig, '/admin/dashboard-link', { json: {} })
  const code = String(link.body['path']).slice('/#code='.length)
  const first = await ask(rig, '/v1/dashboard/session', { json: { code } })
  assert.match(first.headers.get('set-cookie') ?? '', /; HttpOnly; SameSite=Strict$/)
  assert.equal(codeOf(await ask(rig, '/v1/dashboard/session', { json: { code } })), 'invalid_api_key')
  const { cookie, csrf } = await signIn(rig)
  for (const path of ['/', '/dashboard/app.ts'])
    assert.equal(
      (await rig.fetch(path, { headers: { cookie, authorization: '' } })).status,
      200,
      `${path} is loaded again`,
    )
  const send = (path: string, headers: Record<string, string>, json?: unknown) =>
    ask(rig, path, { ...(json === undefined ? {} : { json }), headers: { cookie, authorization: '', ...headers } })
  assert.equal((await send('/v1/dashboard/versions', { 'x-instar-csrf': csrf })).status, 200)
  const hello = { model: 'policy', messages: [{ role: 'user', content: 'Hi' }] }
  assert.equal(codeOf(await send('/v1/chat/completions', {}, hello)), 'foreign_request', 'without its token')
  assert.equal((await send('/v1/chat/completions', { 'x-instar-csrf': csrf }, hello)).status, 200)
  for (const headers of [
    { origin: 'http://localhost:3000' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'null' },
  ] as Record<string, string>[])
    for (const json of [undefined, hello])
      assert.equal(
        codeOf(
          await send(
            json ? '/v1/chat/completions' : '/v1/dashboard/versions',
            { ...headers, 'x-instar-csrf': csrf },
            json,
          ),
        ),
        'foreign_request',
      )
  assert.equal((await turnsOf(rig.log)).length, 1)
})

test('a session of a revoked key ends, and one of another admin token', async (t) => {
  const rig = await start(t, { settings: { keys: [key('read', ['read'])] } })
  const begun = await ask(rig, '/v1/dashboard/session', {
    json: {},
    headers: { authorization: `Bearer ${tokenOf('read')}` },
  })
  const cookie = begun.cookie!
  const headers = { cookie, 'x-instar-csrf': String(begun.body['csrf']) }
  assert.equal((await ask(rig, '/v1/dashboard/versions', { headers })).status, 200)
  const other = await start(t, { settings: { keys: [key('else', ['read'])], adminToken: ADMIN_TOKEN } })
  assert.equal(codeOf(await ask(other, '/v1/dashboard/versions', { headers })), 'invalid_api_key')
  const { cookie: admins } = await signIn(rig)
  const renewed = await start(t, { settings: { keys: [key('read', ['read'])], adminToken: `${ADMIN_TOKEN}-2` } })
  assert.equal(codeOf(await ask(renewed, '/v1/dashboard/versions', { headers: { cookie: admins } })), 'invalid_api_key')
})

test('a link made with a key opens a session of that key: its scopes, its id, until it is revoked', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-link-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const keyFile = join(folder, 'keys.json')
  const stored = (...keys: object[]) =>
    writeFileSync(
      keyFile,
      JSON.stringify({ keys: keys.map((one) => ({ ...one, created_at: '2026-01-01T00:00:00Z' })) }),
    )
  const [chief, other] = [key('chief', ['admin']), key('other', ['inference'])]
  stored(chief, other)
  let at = Date.now()
  const rig = await start(t, { settings: { keyFile }, ports: { now: () => at } })
  const codeBy = async (headers: Record<string, string>): Promise<string> =>
    String((await ask(rig, '/admin/dashboard-link', { json: {}, headers })).body['path']).slice('/#code='.length)
  const bearer = { authorization: `Bearer ${tokenOf('chief')}` }
  const begun = await ask(rig, '/v1/dashboard/session', { json: { code: await codeBy(bearer) } })
  const session = { cookie: begun.cookie!, 'x-instar-csrf': String(begun.body['csrf']) }
  const as = (path: string, headers: Record<string, string>, json?: unknown) =>
    ask(rig, path, { ...(json === undefined ? {} : { json }), headers: { authorization: '', ...headers } })
  assert.deepEqual((await as('/v1/dashboard/session', session)).body['may'], { text: false, actions: true })
  assert.equal(codeOf(await as('/v1/dashboard/turns/x/text', session)), 'missing_scope')
  assert.equal(
    codeOf(await as('/v1/chat/completions', session, { model: 'policy', messages: [{ role: 'user', content: 'Hi' }] })),
    'missing_scope',
  )
  // A session of a key makes links of that key, and the admin token all rights, also beside a key.
  const again = await as('/admin/dashboard-link', session, {})
  const second = await as('/v1/dashboard/session', {}, { code: String(again.body['path']).slice('/#code='.length) })
  assert.equal(second.cookie?.split('.')[0], begun.cookie!.split('.')[0])
  const both = await codeBy({ ...bearer, 'x-instar-admin-token': ADMIN_TOKEN })
  const full = await as('/v1/dashboard/session', {}, { code: both })
  const operator = { cookie: full.cookie!, 'x-instar-csrf': String(full.body['csrf']) }
  assert.deepEqual((await as('/v1/dashboard/session', operator)).body['may'], { text: true, actions: true })

  const unused = await codeBy(bearer)
  stored(other)
  at += 2000
  assert.equal(codeOf(await as('/v1/dashboard/versions', session)), 'invalid_api_key')
  assert.equal(codeOf(await as('/v1/dashboard/session', {}, { code: unused })), 'invalid_api_key')
  assert.equal((await as('/v1/dashboard/versions', operator)).status, 200)
})

test('a session ends with its gateway: while that is down, an open page tells cookie and token to whoever listens at the port', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-dashboard-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'admin.token')
  writeFileSync(file, ADMIN_TOKEN, { mode: 0o600 })
  for (const [settings, survives] of [
    [{ adminToken: null, adminTokenFile: file }, false],
    [{ adminToken: ADMIN_TOKEN }, true],
  ] as const) {
    const before = await start(t, { settings })
    const { cookie, csrf } = await signIn(before)
    const command = (rig: Rig) =>
      ask(rig, '/admin/dashboard-link', { json: {}, headers: { authorization: '', cookie, 'x-instar-csrf': csrf } })
    assert.equal((await command(before)).status, 200)
    const after = await start(t, { settings })
    assert.equal(codeOf(await command(after)), survives ? '' : 'invalid_api_key')
  }
})

test('queries are checked, pages follow their cursor, and what is not there is 404', async (t) => {
  const rig = await start(t)
  const rows = async (query: string) => {
    const { status, body } = await ask(rig, `/v1/dashboard/sessions?${query}`)
    return status === 200 ? (body['rows'] as unknown[])[0] : codeOf({ body } as Fetched)
  }
  const at = '2026-01-01T00:00:00.000Z'
  assert.deepEqual(await rows(`subject=me&version=3&at=${at}&after=x`), {
    filter: { subject: 'me', version: 3 },
    after: { at, id: 'x' },
  })
  for (const agent of [...AGENT_NAMES, 'unknown'])
    assert.deepEqual(await rows(`agent=${encodeURIComponent(agent)}`), { filter: { agent }, after: null })
  for (const query of [
    'agent=claude-cli%2F2.1',
    'version=x',
    'reward=good',
    'unknown=1',
    'at=x&after=y',
    `at=${at}`,
    'at=0000-01-01T00:00:00Z&after=y',
    'subject=%00',
    `subject=${'x'.repeat(201)}`,
  ])
    assert.equal(await rows(query), 'bad_request', query)
  assert.equal(codeOf(await ask(rig, '/v1/dashboard/sessions/other')), 'unknown_turn')
  assert.equal(codeOf(await ask(rig, '/v1/dashboard/turns/%00')), 'bad_request')
  assert.equal(codeOf(await ask(rig, '/v1/dashboard/versions/2')), 'unknown_version')
  const none = await start(t, { ports: { readModel: null as never } })
  assert.equal(codeOf(await ask(none, '/v1/dashboard/versions')), 'not_available')
  assert.equal((await ask(none, '/v1/dashboard/now')).status, 200)
})

test('a turn is shown with its messages, its tokens and its log-probs', async (t) => {
  const rig = await start(t, { script: () => 'Paris.' })
  const said = await rig.client.chat.completions.create({
    model: 'policy',
    messages: [
      { role: 'system', content: 'Be <b>brief</b>.' },
      { role: 'user', content: 'The capital of France?' },
    ],
  })
  const [turn] = await turnsOf(rig.log)
  assert.ok(said.id)
  const text = (await ask(rig, `/v1/dashboard/turns/${turn!.turn}/text`)).body as unknown as {
    messages: { role: string; content: { text: string } }[]
    answer: { text: string }
  }
  assert.deepEqual(
    text.messages.map(({ role, content }) => [role, content.text]),
    [
      ['system', 'Be <b>brief</b>.'],
      ['user', 'The capital of France?'],
    ],
  )
  assert.equal(text.answer.text, 'Paris.')
  const tokens = (await ask(rig, `/v1/dashboard/turns/${turn!.turn}/tokens`)).body as unknown as {
    tokens: { id: number; text: string; logprob: number }[]
    prompt_tokens: number
  }
  assert.deepEqual(
    tokens.tokens.map(({ id, logprob }) => [id, logprob]),
    turn!.ids.map((id, i) => [id, turn!.logprobs[i]]),
  )
  assert.equal(tokens.tokens.map(({ text: piece }) => piece).join(''), 'Paris.')
  assert.equal(tokens.prompt_tokens, turn!.prompt.length)
})

test('an open page gets a reading at once, and a closed one is forgotten', async (t) => {
  const rig = await start(t)
  const ended = new AbortController()
  const response = await rig.fetch('/v1/dashboard/events', { signal: ended.signal })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  const { value } = await reader.read()
  assert.match(value ?? '', /^event: now\ndata: \{"at":"/)
  ended.abort()
  await assert.rejects(reader.read())
  const head = await rig.fetch('/v1/dashboard/events', { method: 'HEAD' })
  assert.deepEqual([head.status, head.headers.get('content-type')], [200, 'text/event-stream'])
})

test('a search reads the newest turns, and an export is of one session; both need the scope read', async (t) => {
  const rig = await start(t, {
    script: (_request, prompt) => (prompt.includes('France') ? 'Paris.' : 'I do not know.'),
  })
  const say = (content: string, session: string) =>
    rig.client.chat.completions.create(
      { model: 'policy', messages: [{ role: 'user', content }] },
      { headers: { 'x-session-id': session } },
    )
  for (const [i, content] of ['The capital of France?', 'Of Spain?', 'Of Ⅲ?'].entries()) await say(content, `one ${i}`)
  type Found = { hits: { turn_id: string; who: string; before: string; match: string }[]; searched: number }
  const search = async (text: string, more = '') =>
    (await ask(rig, `/v1/dashboard/search?text=${encodeURIComponent(text)}${more}`)).body as unknown as Found
  const turns = await turnsOf(rig.log)
  const found = await search('pARIS')
  assert.deepEqual([found.hits.length, found.searched], [1, 3])
  assert.deepEqual(
    found.hits.map(({ turn_id, who, before, match }) => [turn_id, who, before, match]),
    [[turns[0]!.turn, 'assistant', '', 'Paris']],
  )
  assert.deepEqual(
    (await search('of SPAIN')).hits.map(({ who }) => who),
    ['user'],
  )
  assert.deepEqual((await search('nowhere')).hits, [])
  for (const query of ['', '?text=', `?text=${'x'.repeat(201)}`, '?text=a&other=1', '?text=a&at=x&after=y'])
    assert.equal(codeOf(await ask(rig, `/v1/dashboard/search${query}`)), 'bad_request', query)
  const session = encodeURIComponent(turns[1]!.session)
  const lines = await (await rig.fetch(`/v1/dashboard/sessions/${session}/export`)).text()
  const line = JSON.parse(lines) as { request: { messages: { content: string }[] }; response: { choices: unknown[] } }
  assert.deepEqual([line.request.messages[0]!.content, line.response.choices.length], ['Of Spain?', 1])
  assert.equal(codeOf(await ask(rig, '/v1/dashboard/sessions/none/export')), 'unknown_turn')
  const locked = await start(t, { settings: { keys: [key('admin', ['admin'])] } })
  for (const path of ['search?text=a', 'sessions/x/export'])
    assert.equal(
      codeOf(await ask(locked, `/v1/dashboard/${path}`, { headers: { authorization: `Bearer ${tokenOf('admin')}` } })),
      'missing_scope',
    )
})

test('a cookie alone is no session: servers of other ports of this host get it too', async (t) => {
  const rig = await start(t, { settings: { keys: [key('one', ['inference'])] } })
  const { cookie, csrf } = await signIn(rig)
  const as = (path: string, headers: Record<string, string> = {}) =>
    ask(rig, path, { headers: { authorization: '', cookie, ...headers } })
  const stolen = await as('/v1/dashboard/session')
  assert.equal(stolen.body['signed_in'], false)
  assert.doesNotMatch(JSON.stringify(stolen.body), new RegExp(csrf))
  for (const path of ['versions', 'now', 'turns/x/text', 'sessions/known/export'])
    assert.equal(codeOf(await as(`/v1/dashboard/${path}`)), 'foreign_request', path)
  assert.equal(codeOf(await as('/admin/requests')), 'foreign_request')
  assert.deepEqual((await as('/v1/dashboard/session', { 'x-instar-csrf': csrf })).body['may'], {
    text: true,
    actions: true,
  })
  // Who has a session's cookie and lost its token begins another by a link.
  const link = await ask(rig, '/admin/dashboard-link', { json: {} })
  const again = await ask(rig, '/v1/dashboard/session', {
    json: { code: String(link.body['path']).slice('/#code='.length) },
    headers: { authorization: '', cookie },
  })
  assert.equal(again.status, 200)
})

test('signing out ends the session, and no other', async (t) => {
  const rig = await start(t, { settings: { keys: [key('one', ['inference'])] } })
  const [one, two] = [await signIn(rig), await signIn(rig)]
  const as = ({ cookie, csrf }: typeof one, method: string, path: string) =>
    ask(rig, path, { method, headers: { authorization: '', cookie, 'x-instar-csrf': csrf } })
  assert.equal((await as(one, 'GET', '/v1/dashboard/versions')).status, 200)
  assert.equal((await as(one, 'DELETE', '/v1/dashboard/session')).status, 200)
  assert.equal(codeOf(await as(one, 'GET', '/v1/dashboard/versions')), 'invalid_api_key')
  assert.equal((await as(two, 'GET', '/v1/dashboard/versions')).status, one.cookie === two.cookie ? 401 : 200)
})

test('an open page ends with its session: signed out, or expired', { timeout: 30_000 }, async (t) => {
  let at = Date.now()
  const rig = await start(t, {
    settings: { keys: [key('one', ['inference'])] },
    ports: { now: () => at, monotonic: () => performance.now() },
  })
  const sessions: { cookie: string; csrf: string }[] = []
  for (let i = 0; i < 3; i += 1) {
    sessions.push(await signIn(rig))
    at += 1000
  }
  const [out, expires, stays] = sessions as [Session, Session, Session]
  const open = async ({ cookie }: Session) => {
    const response = await rig.fetch('/v1/dashboard/events', { headers: { authorization: '', cookie } })
    const reader = response.body!.getReader()
    assert.equal((await reader.read()).done, false)
    return reader
  }
  const ended = async (page: Awaited<ReturnType<typeof open>>): Promise<void> => {
    while (!(await page.read()).done);
  }
  const pages = [await open(out), await open(expires), await open(stays)] as const
  const { cookie, csrf } = out
  await ask(rig, '/v1/dashboard/session', {
    method: 'DELETE',
    headers: { authorization: '', cookie, 'x-instar-csrf': csrf },
  })
  await assert.rejects(ended(pages[0]), { message: 'terminated' })
  at = Number(expires.cookie.split('.')[1])
  await assert.rejects(ended(pages[1]), { message: 'terminated' })
  const headers = { authorization: '', cookie: stays.cookie, 'x-instar-csrf': stays.csrf }
  assert.equal((await ask(rig, '/v1/dashboard/versions', { headers })).status, 200)
  await pages[2].cancel()
})

type Session = { cookie: string; csrf: string }
