/** A gateway that serves without keys, and then has keys. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { eventsOf, sha256, startRig, turnsOf, turnThat, USER, type RigOptions } from '../../../../test/kit/gateway.ts'

const ID = '0123456789ab'
const TOKEN = `sk-instar-${ID}-secret`
const KEYED = { authorization: `Bearer ${TOKEN}` }

type Session = { session: string | null; turn: string | null }
const of = ({ headers }: Response): Session => ({
  session: headers.get('x-instar-session-id'),
  turn: headers.get('x-instar-turn-id'),
})

const started = async (t: TestContext, options: RigOptions = {}) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-open-'))
  const file = join(folder, 'keys.json')
  let ahead = 0
  const rig = await startRig({
    ...options,
    settings: { keyFile: file },
    ports: { now: () => Date.now() + ahead },
  })
  t.after(async () => {
    await rig.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  const write = async (content: object): Promise<void> => {
    await writeFile(`${file}.new`, JSON.stringify(content))
    await rename(`${file}.new`, file)
    ahead += 1001
  }
  return {
    rig,
    addKey: (id = ID) =>
      write({ keys: [{ id, sha256: sha256(Buffer.from(TOKEN)), created_at: new Date().toISOString() }] }),
    open: () => write({ keys: [], open: true }),
    chat: (label: string, headers: Record<string, string> = {}, content = 'Hi') =>
      rig.fetch('/v1/chat/completions', {
        json: { model: 'policy', messages: [USER(content)] },
        headers: { 'x-session-id': label, ...headers },
      }),
  }
}

test('a stream that began without a key ends with an error when the first key is created', async (t) => {
  const { rig, addKey } = await started(t, {
    script: () => ({
      text: 'One two three four five six seven eight nine ten.',
      before: (piece, signal) =>
        piece < 5 || signal?.aborted
          ? Promise.resolve()
          : new Promise((resolve) => {
              signal?.addEventListener('abort', () => resolve())
            }),
    }),
  })
  const response = await rig.fetch('/v1/chat/completions', {
    json: { model: 'policy', messages: [USER('Hi')], stream: true },
  })
  let said = ''
  let begun = false
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    said += piece
    if (begun || !said.includes('two')) continue
    begun = true
    await addKey()
  }
  assert.match(said, /"code":"invalid_api_key"/)
  assert.match(said, /The gateway has API keys now, and the request has none\./)
  const turn = await turnThat(rig.log, ({ type }) => type === 'TurnAborted')
  assert.deepEqual([turn.key, turn.trainable], [null, false])
})

for (const id of [ID, 'anna'])
  test(`a session named without a key as one of the key ${id} would be is not continued with that key`, async (t) => {
    const { rig, addKey, chat } = await started(t)
    const foreign = of(await chat(`${id}_work`))
    await addKey(id)
    const own = of(await chat('work', KEYED))
    assert.notEqual(own.session, foreign.session)
    assert.ok(own.session!.startsWith(`${id}_`))
    assert.deepEqual(of(await chat('work', KEYED)).session, own.session, 'a second request goes on in it')
    const rate = (turn: string | null) =>
      rig.fetch('/v1/feedback', { json: { turn_id: turn, value: 1 }, headers: KEYED })
    assert.deepEqual([(await rate(foreign.turn)).status, (await rate(own.turn)).status], [404, 200])
    const sessions = Map.groupBy(await turnsOf(rig.log), ({ session }) => session)
    assert.deepEqual(
      [...sessions.values()].map((turns) => turns.map(({ key }) => key)),
      [[null], [id, id]],
    )
  })

for (const id of [ID, 'anna'])
  test(`a session of the key ${id} is not continued without a key once the gateway is open`, async (t) => {
    const { rig, addKey, open, chat } = await started(t)
    await addKey(id)
    const own = of(await chat('work', KEYED))
    await open()
    const foreign = await chat(own.session!)
    assert.equal(foreign.status, 200)
    assert.notEqual(of(foreign).session, own.session)
    const rated = await rig.fetch('/v1/feedback', { json: { turn_id: own.turn, value: -1 } })
    assert.equal(rated.status, 404)
    await rig.fetch(`/v1/sessions/${own.session}/close`, { json: {} })
    const closed = (await eventsOf(rig.log)).flatMap((event) => (event.type === 'SessionClosed' ? event.session : []))
    assert.ok(!closed.includes(own.session!))
  })
