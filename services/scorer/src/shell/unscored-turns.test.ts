/** Which turns a cut must leave for judges. */
import { encodeEvent, type Event, type TurnCaptured } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { deepEqual } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { scored } from '../../../../test/kit/projected-history.ts'
import { captured, type Said } from '../../../../test/kit/scored-history.ts'
import { unscoredTurns } from './unscored-turns.ts'

test('those that need a score, what replies to them, and those of open sessions, but none that has a score', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-unscored-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const said = (session: string, more: Partial<Parameters<typeof captured>[0]> = {}): TurnCaptured => {
    const messages: Said[] = [{ role: 'user', content: `Hello from ${session}.` }]
    return captured({ session, messages, answer: `Hello ${session}.`, at: 10, name: 'first', ...more })
  }
  const reply = (to: string, more: Partial<Parameters<typeof captured>[0]> = {}): TurnCaptured =>
    said(to, {
      messages: [
        { role: 'user', content: `Hello from ${to}.` },
        { role: 'assistant', content: `Hello ${to}.` },
        { role: 'user', content: 'Thank you!' },
      ],
      answer: 'Any time.',
      at: 20,
      name: 'second',
      ...more,
    })
  const closed = (of: TurnCaptured): Event => ({
    type: 'SessionClosed',
    session: of.session,
    open: [of.turn],
    why: 'idle',
    at: 100,
  })
  const [asked, thanked] = [said('asked'), reply('asked', { kind: 'side', trainable: false, reason: 'side turn' })]
  const [answered, answer] = [said('answered'), reply('answered')]
  const [open, early, ended, done] = [said('open'), said('early'), said('ended'), said('done')]
  const turns = [asked, thanked, answered, answer, open, early, ended, done]
  const log = openMemoryLog()
  const events = [
    ...turns,
    closed(answer),
    closed(ended),
    closed(done),
    scored(early, 1),
    scored(answered, 1),
    scored(done, 0.5),
  ]
  await log.append(events.map((event) => encodeEvent(event)))
  const needed = async (): Promise<TurnCaptured[]> => {
    const ids = await unscoredTurns(log, {
      policy: 'policy',
      checkpoints: folder,
      observer: { onProgress: () => undefined },
    })
    return turns.filter(({ turn }) => ids.includes(turn))
  }
  deepEqual(await needed(), [asked, answer, open, ended])
  // It has a score itself, and is needed as what `open` got for a reply.
  const next = reply('open')
  await log.append([next, scored(next, 1)].map((event) => encodeEvent(event)))
  turns.push(next)
  deepEqual(await needed(), [asked, answer, open, ended, next])
})
