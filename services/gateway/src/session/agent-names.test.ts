/** The name of the program that sent a request is recorded with its turn, once all readers of the log know the field. */
import { encodeRecord, isReadable } from '@instar/events'
import { openMemoryLog, versionsOn, type EventLog } from '@instar/log'
import { deepEqual } from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { startRig, turnsOf, USER, type Rig } from '../../../../test/kit/gateway.ts'

const CLAUDE = 'claude-cli/2.1.329 (external, sdk-cli)'
const CODEX = 'codex_exec/0.169.0 (Debian 12.0.0; x86_64) unknown (codex_exec; 0.169.0)'

const say = async (rig: Rig, userAgent: string, path = '/v1/chat/completions', body: object = {}): Promise<void> => {
  const response = await rig.fetch(path, {
    json: { model: 'policy', messages: [USER(`What is ${userAgent.length}+2?`)], ...body },
    headers: { 'user-agent': userAgent },
  })
  deepEqual(response.status, 200, await response.text())
}

test('each answer has the name of its program, background candidates too, and never its words', async (t) => {
  const rig = await startRig()
  t.after(() => rig.stop())
  await say(rig, CLAUDE, '/v1/messages', { max_tokens: 8 })
  await say(rig, CODEX, '/v1/responses', { messages: undefined, input: 'What is 2+2?' })
  await say(rig, '<b>my own</b> agent/1.0', undefined, { n: 2 })
  deepEqual(
    (await turnsOf(rig.log)).map(({ agent }) => agent),
    ['Claude Code', 'Codex', 'other', 'other'],
  )
})

test('while older readers of the log do not know the field, turns are written without it', async (t) => {
  const memory = openMemoryLog()
  const log: EventLog = new Proxy(memory, {
    get(target, name) {
      const value: unknown = name === 'sole' ? false : Reflect.get(target, name)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
  const rig = await startRig({ log })
  t.after(() => rig.stop())
  await log.append([encodeRecord({ type: 'ReadersUpgraded', versions: { TurnCaptured: 3 }, who: 'setup', at: 1 })])
  await say(rig, CLAUDE)
  await log.append([encodeRecord({ type: 'ReadersUpgraded', versions: { TurnCaptured: 4 }, who: 'setup', at: 2 })])
  while (!isReadable(versionsOn(log), 'TurnCaptured', 4)) await setImmediate()
  await say(rig, CLAUDE)
  deepEqual(
    (await turnsOf(log)).map(({ agent }) => agent),
    [null, 'Claude Code'],
  )
})
