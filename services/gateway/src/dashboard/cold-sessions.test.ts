/** A session of many turns that only the snapshot holds: pages read it in slices, between which the event loop is free. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import {
  decodeRecord,
  encodeEvent,
  InstarError,
  sessionOfTurn,
  type Logged,
  type SessionState,
  type Table,
  type TurnsEvent,
} from '@instar/events'
import { openMemoryLog, openSnapshots } from '@instar/log'
import { SnapshotFile } from '@instar/log/snapshots/file'
import { T0, turn } from '../../../../test/kit/projected-history.ts'
import { evolveIndex, type SessionIndex } from '../session/core/session-index.ts'
import { openSnapshot } from '../session/snapshot.ts'
import { beginnings, exportedSession, newestPrompts } from './texts.ts'
import { turnText, type TextPorts } from './turn-view.ts'

const TURNS = 1024
const LIMITS = { sessions: 100, turns: 10_000 }
const says = (i: number): string => `Answer ${i}.`
const UNKNOWN = () => Promise.reject(new InstarError('unknown_turn', 'not on the log'))

type Page = (text: TextPorts, index: SessionIndex) => Promise<unknown>
const read = <T>(work: () => Promise<T>): Promise<T> => work()
const PAGES: Record<string, Page> = {
  export: (text, index) => exportedSession({ index, text, read }, 'long'),
  beginnings: (text, index) => beginnings({ index, text, read }, ['long']),
  prompts: (text, index) => newestPrompts({ index, text, read }, null),
  text: (text) => turnText(text, turn({ session: 'long', name: 'long 0', says: says(0), at: T0 }).turn),
}

for (const [name, page] of Object.entries(PAGES))
  test(`${name}: all rows of a cold session are read in slices, and none when it is looked up`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'instar-cold-'))
    t.after(() => rmSync(folder, { recursive: true }))
    const log = openMemoryLog()
    const store = () => openSnapshots(folder, { records: 1e9, ms: Infinity })
    const before = openSnapshot(store(), 'policy', LIMITS)
    await before.open(log)
    for (let i = 0; i < TURNS; i += 1) {
      const { id: _, ...record } = encodeEvent(
        turn({ session: 'long', name: `long ${i}`, says: says(i), at: T0 + i, ...(i > 0 ? { to: says(i - 1) } : {}) }),
      )
      const [position] = await log.append([record])
      const logged = decodeRecord({ ...record, ...position! }) as Logged<TurnsEvent>
      assert.ok(evolveIndex(before.index, logged).counted)
      await before.after(logged)
    }
    await before.close()
    const after = openSnapshot(store(), 'policy', LIMITS)
    await after.open(log)
    // A start reads it; others have taken its place in memory since.
    ;(after.index.fold.sessions as Table<string, SessionState> & { forget(): void }).forget()
    t.after(() => after.close({ save: false }))
    let [loading, inSlices, atOnce] = [0, 0, 0]
    const get = SnapshotFile.prototype.get
    t.after(() => void (SnapshotFile.prototype.get = get))
    SnapshotFile.prototype.get = function (this: SnapshotFile, ...args: Parameters<typeof get>) {
      if (loading > 0) inSlices += 1
      else atOnce += 1
      return get.apply(this, args)
    }
    const ready = async (session: string): Promise<void> => {
      loading += 1
      await after.load(session)
      loading -= 1
    }
    const text = {
      reader: { record: UNKNOWN, body: UNKNOWN },
      index: after.index,
      tail: { ready, turnsWithin: async () => false },
    } as unknown as TextPorts
    await page(text, after.index).catch((error: unknown) => assert.equal((error as InstarError).code, 'unknown_turn'))
    assert.equal(after.index.fold.sessions.get('long')!.turns.length, TURNS)
    assert.equal(sessionOfTurn(after.index.fold.sessions.get('long')!.turns[0]!.turn), 'long')
    // The session's row, and those of its turns.
    assert.deepEqual([inSlices, atOnce], [TURNS / 128, 0])
  })
