/**
 * What real agents sent, once recorded, sent again: sessions, kinds, attempts, next states and what is heard in
 * them are those of the recording. Each rule of these has a tape that differs without it (the table in docs/agents.md).
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { startScene, type Scene } from '../scene.ts'
import { readTape, shortened, withIds, type Request } from './tape.ts'

type Turn = { turn: string; session: string }

/** Sends one request; resolves with the turn that it became, its answer read to the end. */
const send = async ({ rig, token }: Scene, { path, headers, body }: Request, turns: readonly Turn[]): Promise<Turn> => {
  const { 'transfer-encoding': _, 'accept-language': __, 'sec-fetch-mode': ___, ...kept } = headers
  const response = await rig.fetch(path, { method: 'POST', headers: { ...kept, authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: withIds(JSON.stringify(body), turns) })
  const text = await response.text()
  const turn = response.headers.get('x-instar-turn-id')
  const session = response.headers.get('x-instar-session-id')
  if (turn === null || session === null) throw new Error(`${response.status}: ${text}`)
  return { turn, session }
}

for (const file of readdirSync(import.meta.dirname).filter((name) => name.endsWith('.jsonl')).toSorted()) {
  const { client, became, requests } = readTape(readFileSync(new URL(file, import.meta.url), 'utf8'))
  test(`${file.replace('.jsonl', '')} (${client})`, async () => {
    const playing: { now: Request | null } = { now: null }
    const scene = await startScene(() => {
      const { said, cut } = playing.now!
      const text = withIds(said, turns)
      return cut ? { text: `${text} and so on`, before: (i) => { if (i > scene.model.encode(text).length) throw new Error('cut') } } : text
    })
    const turns: Turn[] = []
    try {
      for (const request of requests) {
        playing.now = request
        turns.push(await send(scene, request, turns))
      }
      assert.deepEqual(shortened(await scene.became()), became)
    } finally {
      await scene.stop()
    }
  })
}
