/** Sends a tape to a gateway whose model gives the recorded answers. */
import { readFileSync } from 'node:fs'
import { startScene, type Scene } from '../scene.ts'
import { readTape, shortened, withIds, type Became, type Request, type Tape } from './tape.ts'

type Turn = { turn: string; session: string }

export const tapeNamed = (name: string): Tape =>
  readTape(readFileSync(new URL(`${name}.jsonl`, import.meta.url), 'utf8'))

/** Headers that the HTTP client adds. */
const NOT_SENT = new Set(['transfer-encoding', 'accept-language', 'sec-fetch-mode'])

/** Sends one request and reads its answer; resolves with the turn. */
const send = async ({ rig, token }: Scene, { path, headers, body }: Request, turns: readonly Turn[]): Promise<Turn> => {
  const kept = Object.entries(headers).filter(([name]) => !NOT_SENT.has(name))
  const response = await rig.fetch(path, {
    method: 'POST',
    headers: { ...Object.fromEntries(kept), authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: withIds(JSON.stringify(body), turns),
  })
  const text = await response.text()
  const turn = response.headers.get('x-instar-turn-id')
  const session = response.headers.get('x-instar-session-id')
  if (turn === null || session === null) throw new Error(`${response.status}: ${text}`)
  return { turn, session }
}

/** The turns of the requests, sent one after another. */
export const replay = async (requests: readonly Request[]): Promise<Became[]> => {
  const playing: { now: Request | null } = { now: null }
  const turns: Turn[] = []
  const scene = await startScene(() => {
    const { said, cut } = playing.now!
    const text = withIds(said, turns)
    return cut
      ? {
          text: `${text} and so on`,
          before: (i) => {
            if (i > scene.model.encode(text).length) throw new Error('cut')
          },
        }
      : text
  })
  try {
    for (const request of requests) {
      playing.now = request
      turns.push(await send(scene, request, turns))
    }
    return shortened(await scene.became())
  } finally {
    await scene.stop()
  }
}
