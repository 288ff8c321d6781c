/** Which turns a cut must leave for batches. */
import { encodeEvent, type Event, type TurnCaptured } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { deepEqual } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { lineStarted, scored, sealed, T0, turn } from '../../../../test/kit/projected-history.ts'
import { neededTurns } from './needed-turns.ts'

test('those that no batch has taken, those of the last batch, and what their bodies and prompts refer to', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-needed-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const named = (name: string, from: { body?: TurnCaptured; prompt?: TurnCaptured } = {}): TurnCaptured => {
    const made = turn({ session: `s-${name}`, name, says: name })
    if (from.body) made.body = { ...made.body, from: from.body.turn, prefix: 1 }
    if (from.prompt) made.prompt = { ...made.prompt, from: from.prompt.turn, prefix: 1 }
    return made
  }
  const [first, second, unrelated] = ['first', 'second', 'unrelated'].map((name) => named(name)) as [
    TurnCaptured,
    TurnCaptured,
    TurnCaptured,
  ]
  const between = named('between', { body: first })
  const waiting = named('waiting', { body: between, prompt: second })
  const trained = [named('one'), named('two')]
  const last = named('last')
  const start = lineStarted()
  const parent = { version: 0, adapter: null, state: null, record: encodeEvent(start).id }
  const batch = (prev: string, number: number, of: TurnCaptured[]) =>
    sealed(
      prev,
      number,
      parent,
      of.map((one) => ({ of: one, score: scored(one, 1) })),
    )
  const one = batch('', 1, trained)
  const two = batch(encodeEvent(one).id, 2, [last])
  const turns = [first, second, unrelated, between, waiting, ...trained, last]
  const events: Event[] = [start, ...turns, ...[waiting, ...trained, last].map((of) => scored(of, 1)), one, two]
  const log = openMemoryLog()
  const positions = await log.append(events.map((event) => encodeEvent(event)))
  const placeOf = (of: TurnCaptured): string => {
    const { partition, offset } = positions[events.indexOf(of)]!
    return `${partition}@${offset}`
  }
  const needed = await neededTurns(log, {
    policy: 'policy',
    checkpoints: folder,
    since: Infinity,
    unscored: [],
    observer: { onProgress: () => undefined },
  })
  deepEqual(
    needed.map(({ partition, offset }) => `${partition}@${offset}`).sort(),
    [waiting, between, first, second, last].map(placeOf).sort(),
  )
})

test('the chains of turns that stay, also where they are not scored yet, but not the turns that stay themselves', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-needed-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const named = (name: string, day: number, body?: TurnCaptured, prompt = body): TurnCaptured => {
    const made = turn({ session: `s-${name.split('-')[0]}`, name, says: name, at: T0 + day * 86_400_000 })
    if (body) made.body = { ...made.body, from: body.turn, prefix: 1 }
    if (prompt) made.prompt = { ...made.prompt, from: prompt.turn, prefix: 1 }
    return made
  }
  const oldest = named('a-1', 1)
  const prompted = named('a-2', 2)
  const older = named('a-3', 3, oldest, prompted)
  const [ended, unreferred] = [named('b-1', 4), named('a-4', 5)]
  const kept = named('a-5', 11, older)
  const later = named('a-6', 12, kept)
  const events: Event[] = [lineStarted(), oldest, prompted, older, ended, unreferred, kept, later]
  const log = openMemoryLog({ partitions: { turns: 2 } })
  const positions = await log.append(events.map((event) => encodeEvent(event)))
  const options = { policy: 'policy', checkpoints: folder, observer: { onProgress: () => undefined } }
  const needed = async (days: number, unscored: string[] = []): Promise<TurnCaptured[]> => {
    const found = await neededTurns(log, { ...options, since: T0 + days * 86_400_000, unscored })
    return (events as TurnCaptured[]).filter((_, at) =>
      found.some(({ topic, partition, offset }) => {
        const one = positions[at]!
        return one.topic === topic && one.partition === partition && one.offset === offset
      }),
    )
  }
  deepEqual(await needed(10), [oldest, prompted, older])
  // The turn that stays now begins with one that would not, and with all before that.
  deepEqual(await needed(11.5), [oldest, prompted, older, kept])
  deepEqual(await needed(13), [])
  deepEqual(await needed(13, [older.turn, 'unknown']), [oldest, prompted, older])
})
