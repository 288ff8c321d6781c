/** A clock that is set back while the gateway runs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError, type TurnsEvent } from '@instar/events'
import { openMemoryLog } from '@instar/log'
import { withAppend } from '../../../../test/kit/gateway.ts'
import { Background } from '../generate/background.ts'
import { Capture } from './capture.ts'

const HOUR = 3_600_000
const CLOSED = {
  type: 'SessionClosed',
  session: 's',
  open: [] as string[],
  why: 'client',
  at: 2 * HOUR,
} satisfies TurnsEvent

test('a refusal ends, and retries end, when the clock is set back', async () => {
  let full = true
  let now = 2 * HOUR
  let setBack = false
  const log = withAppend(openMemoryLog(), async (_, next) => {
    if (setBack) now = HOUR
    if (full) throw new InstarError('log_full', 'full')
    return next()
  })
  const capture = new Capture({ log, now: () => now, onBroken: () => undefined }, { patienceMs: 0, maxHeld: 8 })
  await assert.rejects(capture.write(CLOSED), { code: 'log_full' })
  assert.throws(() => capture.admit(), { code: 'log_full' })
  now = HOUR
  assert.doesNotThrow(() => capture.admit())
  now = 2 * HOUR
  setBack = true
  await assert.rejects(capture.write(CLOSED), { code: 'log_full' })
  full = false
  await capture.write(CLOSED)
  assert.equal(capture.refusal(), null)
})

test('the budget of background candidates loses nothing when the clock is set back', () => {
  let now = 2 * HOUR
  const background = new Background({ now: () => now } as never, { candidates: 2, tokensPerHour: 100, patienceMs: 1 })
  background['spend'](60)
  assert.equal(background['tokens'](), 40)
  now = HOUR
  assert.equal(background['tokens'](), 40)
  background['spend'](40)
  assert.equal(background.wanted(), 1)
  now += HOUR / 2
  assert.equal(background['tokens'](), 50)
})
