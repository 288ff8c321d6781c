/** Without API keys: pages in a browser, other users of the machine, and who may send commands. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import {
  ADMIN_TOKEN,
  eventsOf,
  Publisher,
  sha256,
  startRig,
  turnsOf,
  USER,
  type Rig,
} from '../../../../test/kit/gateway.ts'

type Answer = { status: number; code: string | undefined }

/** As a browser or a program sends it; `fetch` cannot set Host or Origin. */
const send = (rig: Rig, path: string, headers: Record<string, string>, body = '{}'): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const { hostname, port, host } = new URL(rig.url)
    request({ hostname, port, path, method: 'POST', headers: { host, ...headers } }, (response) => {
      text(response).then(
        (said) =>
          resolve({
            status: response.statusCode!,
            code: (JSON.parse(said) as { error?: { code?: string } }).error?.code,
          }),
        reject,
      )
    })
      .on('error', reject)
      .end(body)
  })

const JSON_TYPE = { 'content-type': 'application/json' }
const SHOWN = { ...JSON_TYPE, 'x-instar-admin-token': ADMIN_TOKEN }
const HELLO = JSON.stringify({ model: 'policy', messages: [USER('Hi')] })
const CHAT = '/v1/chat/completions'

const withLine = async (settings = {}): Promise<Rig> => {
  const log = openMemoryLog()
  await new Publisher(log).start()
  return startRig({ log, settings })
}

test('a page of another site can neither freeze learning nor send chats, with either bind', async () => {
  for (const open of [true, false]) {
    const rig = await withLine({ open })
    const own = new URL(rig.url).origin
    try {
      for (const origin of [
        'http://203.0.113.7',
        'http://localhost:3000',
        'http://127.0.0.1',
        own.replace('http:', 'https:'),
        'null',
        'file://',
        `${own}.evil.example`,
      ]) {
        for (const type of ['text/plain', 'application/json']) {
          const headers = { origin, 'content-type': type }
          assert.deepEqual(await send(rig, '/admin/freeze', headers), { status: 403, code: 'foreign_request' }, origin)
          assert.deepEqual(await send(rig, CHAT, headers, HELLO), { status: 403, code: 'foreign_request' }, origin)
        }
      }
      assert.deepEqual(
        (await eventsOf(rig.log, 'weights')).map(({ type }) => type),
        ['LineStarted'],
      )
      assert.deepEqual(await turnsOf(rig.log), [])
      assert.equal((await send(rig, CHAT, { origin: own }, HELLO)).status, 200, 'its own page')
    } finally {
      await rig.stop()
    }
  }
})

test('a Host that was let in lets in no page of another site, and no other Host', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  const refused = { status: 403, code: 'foreign_request' }
  const foreign: Record<string, string>[] = [
    { origin: 'http://203.0.113.7' },
    { 'sec-fetch-site': 'cross-site' },
    { host: 'site.example' },
  ]
  for (const headers of foreign) {
    assert.equal((await send(rig, CHAT, JSON_TYPE, HELLO)).status, 200)
    for (let n = 0; n < 2; n += 1)
      assert.deepEqual(await send(rig, CHAT, { ...JSON_TYPE, ...headers }, HELLO), refused, JSON.stringify(headers))
  }
})

test('a browser request without Origin is classified by Sec-Fetch-Site', async () => {
  const rig = await startRig()
  try {
    for (const site of ['cross-site', 'same-site'])
      assert.deepEqual(
        await send(rig, CHAT, { 'sec-fetch-site': site }, HELLO),
        { status: 403, code: 'foreign_request' },
        site,
      )
    for (const site of ['same-origin', 'none'])
      assert.equal((await send(rig, CHAT, { 'sec-fetch-site': site }, HELLO)).status, 200, site)
    assert.equal((await send(rig, CHAT, { 'sec-fetch-site': 'cross-site', origin: rig.url }, HELLO)).status, 403)
  } finally {
    await rig.stop()
  }
})

test('a listed page can send requests and no commands', async () => {
  const rig = await withLine({ origins: ['https://app.example', 'http://localhost:3000'] })
  try {
    for (const origin of ['https://app.example', 'https://APP.example:443', 'http://localhost:3000']) {
      const headers = { ...JSON_TYPE, origin, 'sec-fetch-site': 'cross-site' }
      assert.equal((await send(rig, CHAT, headers, HELLO)).status, 200, origin)
      assert.deepEqual(await send(rig, '/admin/freeze', headers), { status: 401, code: 'invalid_api_key' }, origin)
    }
    for (const origin of [
      'http://app.example',
      'https://app.example:8443',
      'http://localhost',
      'https://sub.app.example',
    ]) {
      assert.equal((await send(rig, CHAT, { origin }, HELLO)).status, 403, origin)
    }
    assert.equal(
      (await send(rig, CHAT, { origin: 'https://app.example', host: 'evil.example' }, HELLO)).status,
      403,
      'the Host rule stays',
    )
  } finally {
    await rig.stop()
  }
})

test('without keys a command needs the admin token, also on loopback, and a JSON body', async () => {
  const rig = await withLine()
  const wrong: Record<string, string>[] = [
    {},
    { 'x-instar-admin-token': `${ADMIN_TOKEN}x` },
    { authorization: 'Bearer none' },
  ]
  try {
    for (const command of ['freeze', 'thaw', 'rollback', 'promote', 'replay', 'served']) {
      for (const headers of wrong) {
        assert.deepEqual(
          await send(rig, `/admin/${command}`, { ...JSON_TYPE, ...headers }),
          { status: 401, code: 'invalid_api_key' },
          command,
        )
      }
    }
    assert.equal((await fetch(`${rig.url}/admin/requests`)).status, 401, 'what others asked is not told')
    assert.equal((await fetch(`${rig.url}/admin/status`)).status, 200)
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp']) {
      assert.deepEqual(
        await send(rig, '/admin/freeze', { ...SHOWN, 'content-type': type }),
        { status: 415, code: 'not_json' },
        type,
      )
    }
    assert.equal((await eventsOf(rig.log, 'weights')).length, 1)
    assert.equal((await send(rig, '/admin/freeze', SHOWN)).status, 200)
    assert.equal(
      (
        await send(rig, '/admin/thaw', {
          'content-type': 'Application/JSON; charset=utf-8',
          authorization: `Bearer ${ADMIN_TOKEN}`,
        })
      ).status,
      200,
    )
    assert.equal((await send(rig, CHAT, { authorization: `Bearer ${ADMIN_TOKEN}` }, HELLO)).status, 200)
  } finally {
    await rig.stop()
  }
})

test('the record of a command names the key that was sent', async () => {
  const keys = [{ id: 'ops', sha256: sha256(Buffer.from('secret-o')), scopes: ['admin' as const] }]
  for (const [settings, headers, key] of [
    [{}, SHOWN, 'admin token'],
    [{ keys }, { ...JSON_TYPE, authorization: 'Bearer secret-o' }, 'key ops'],
  ] as const) {
    const rig = await withLine({ ...settings, ...('keys' in settings ? { keys: [...settings.keys] } : {}) })
    try {
      await send(rig, '/admin/freeze', headers, JSON.stringify({ who: 'alice@corp' }))
      await send(rig, '/admin/thaw', { ...headers, 'x-instar-who': 'bob (key mallory)' })
      await send(rig, '/admin/freeze', headers)
      const said = (await eventsOf(rig.log, 'weights')).flatMap((event) =>
        event.type === 'LearningFrozen' ? [event.who] : [],
      )
      assert.deepEqual(said, [`alice@corp (${key})`, `bob (key mallory) (${key})`, key])
    } finally {
      await rig.stop()
    }
  }
})
