/** Which turns a cut must leave for batches. */
import { encodeEvent, type Event, type TurnCaptured } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { deepEqual } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { lineStarted, scored, sealed, turn } from '../../../../test/kit/projected-history.ts'
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
    observer: { onProgress: () => undefined },
  })
  deepEqual(
    needed.map(({ partition, offset }) => `${partition}@${offset}`).sort(),
    [waiting, between, first, second, last].map(placeOf).sort(),
  )
})
