/** A request with many references, however they are spelled, costs their number and leaves the event loop to others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextPass } from 'node:timers/promises'
import { DIALECTS, mintId } from '@instar/dialects'
import { decodeRecord, encodeEvent, type Logged, type TurnsEvent, type TurnState } from '@instar/events'
import { createTurnReader, openMemoryLog } from '@instar/log'
import { T0, turn } from '../../../../test/kit/projected-history.ts'
import { evolveIndex, initialIndex, sessionState } from './core/session-index.ts'
import { Paced } from './paced.ts'
import { resolveReferences, type ReferencePorts } from './references.ts'

const TURNS = 2_000
const COUNT = 4_096

/** A log with one session, and the number of looks at its turns. */
const start = async (): Promise<{ ports: ReferencePorts; turns: TurnState[]; looks: () => number }> => {
  const log = openMemoryLog()
  const index = initialIndex({ sessions: 10, turns: 10 * TURNS })
  for (let i = 0; i < TURNS; i += 1) {
    const { id: _, ...record } = encodeEvent(turn({ session: 'long', name: `${i}`, says: `Answer ${i}.`, at: T0 + i }))
    await log.append([record])
  }
  for await (const batch of log.read('turns'))
    for (const record of batch) evolveIndex(index, decodeRecord(record) as Logged<TurnsEvent>)
  const state = sessionState(index, 'long')!
  const { turns } = state
  let looks = 0
  state.turns = new Proxy(turns, {
    get(target, property) {
      if (typeof property === 'string' && /^\d+$/.test(property)) looks += 1
      return Reflect.get(target, property) as unknown
    },
  })
  const tail = { ready: () => undefined, turnsWithin: async () => true } as Partial<ReferencePorts['tail']>
  const ports: ReferencePorts = {
    index,
    tail: tail as ReferencePorts['tail'],
    reader: createTurnReader(log, (id) => index.fold.turns.get(id)),
    readings: new Paced(() => 0),
    tailWaitMs: 100,
    bodyLimit: 64 * 1024 * 1024,
  }
  return { ports, turns, looks: () => looks }
}

/** The id with underscores after the characters at which `n` has a bit. */
const spelled = (id: string, n: number): string => [...id].map((c, i) => ((n >> i) & 1 ? `${c}_` : c)).join('')

/** Passes of the event loop while the references are resolved, and how many items came of them. */
const resolve = async (ports: ReferencePorts, ids: readonly string[]): Promise<{ passes: number; items: number }> => {
  let [passes, over] = [0, false]
  const others = (async () => {
    for (; !over; passes += 1) await nextPass()
  })()
  const input = ids.map((id) => ({ type: 'item_reference', id }))
  const body = await resolveReferences(ports, DIALECTS.responses, { key: null, hold: () => undefined }, { input })
  over = true
  await others
  return { passes, items: (body['input'] as unknown[]).length }
}

const idsOfFirst = (turns: readonly TurnState[]): string[] =>
  Array.from({ length: COUNT }, (_, n) => spelled(mintId('msg', 'long', turns[0]!.turn), n))

test('the turns of a session are looked at once for all references, other spellings of an id among them', async () => {
  const { ports, turns, looks } = await start()
  assert.equal((await resolve(ports, idsOfFirst(turns))).items, COUNT)
  assert.ok(looks() < TURNS + 10, `${looks()} looks`)
  const others = Array.from({ length: 200 }, (_, i) => mintId('msg', 'long', turns[i]!.turn))
  assert.equal((await resolve(ports, others)).items, 200)
  assert.ok(looks() < TURNS + 500, `${looks()} looks`)
})

test('other requests are served between some hundred references to one turn', async () => {
  const { ports, turns } = await start()
  const { passes } = await resolve(ports, idsOfFirst(turns))
  assert.ok(passes >= COUNT / 512, `${passes} passes`)
})

test('a request that ended is resolved no further', async () => {
  const { ports, turns } = await start()
  const gone = new AbortController()
  const input = idsOfFirst(turns).map((id) => ({ type: 'item_reference', id }))
  const asking = { key: null, hold: () => gone.abort(new Error('gone')), gone: gone.signal }
  await assert.rejects(resolveReferences(ports, DIALECTS.responses, asking, { input }), { message: 'gone' })
})
