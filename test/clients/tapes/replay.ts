/** A tape sent again to a gateway whose model says what it said then. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { startScene, type Scene } from '../scene.ts'
import { readTape, shortened, withIds, type Became, type Request, type Tape } from './tape.ts'

type Turn = { turn: string; session: string }

export const tapeNamed = (name: string): Tape => readTape(readFileSync(new URL(`${name}.jsonl`, import.meta.url), 'utf8'))

/** Of the HTTP client's own making. */
const NOT_SENT = new Set(['transfer-encoding', 'accept-language', 'sec-fetch-mode'])

const post = ({ rig, token }: Scene, { path, headers, body }: Request, turns: readonly Turn[]): Promise<Response> => {
  const kept = Object.entries(headers).filter(([name]) => !NOT_SENT.has(name))
  return rig.fetch(path, { method: 'POST', headers: { ...Object.fromEntries(kept), authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: withIds(JSON.stringify(body), turns) })
}

/** Sends one request; resolves with the turn that it became, its answer read to the end. */
const send = async (scene: Scene, request: Request, turns: readonly Turn[]): Promise<Turn> => {
  const response = await post(scene, request, turns)
  const text = await response.text()
  const turn = response.headers.get('x-instar-turn-id')
  const session = response.headers.get('x-instar-session-id')
  if (turn === null || session === null) throw new Error(`${response.status}: ${text}`)
  return { turn, session }
}

/** What becomes of the requests, one after another. `refused`: those of them that get a 429 instead of an answer. */
export const replay = async (requests: readonly Request[], refused: readonly Request[] = []): Promise<Became[]> => {
  let late = 0
  const playing: { now: Request | null } = { now: null }
  const turns: Turn[] = []
  const scene = await startScene(() => {
    const { said, cut } = playing.now!
    const text = withIds(said, turns)
    return cut ? { text: `${text} and so on`, before: (i) => { if (i > scene.model.encode(text).length) throw new Error('cut') } } : text
  }, { limited: refused.length > 0, ports: { now: () => Date.now() + late } })
  try {
    for (const request of requests) {
      playing.now = request
      if (!refused.includes(request)) turns.push(await send(scene, request, turns))
      else {
        await scene.spend()
        assert.equal((await post(scene, request, turns)).status, 429)
        turns.push({ turn: '', session: '' })
        late += 60_000
      }
    }
    return shortened(await scene.became())
  } finally {
    await scene.stop()
  }
}
