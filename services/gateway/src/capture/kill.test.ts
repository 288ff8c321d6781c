/** `kill -9` of a gateway during its work: answers that a client received in full are on the log. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { readWritten } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { sse, turnsOf, USER } from '../../../../test/kit/gateway.ts'

const ROUNDS = 4
const CLIENTS = 6

type Received = { turn: string; whole: string; text: string; finished: boolean }

/** Sends requests until the gateway is gone. */
const talk = async (url: string, client: number, received: Received[]): Promise<void> => {
  for (let i = 0; ; i += 1) {
    const seed = client * 100_000 + i
    let response: Response
    try {
      response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'policy', messages: [USER(`${client} asks ${i}`)], seed, stream: true }),
      })
    } catch {
      return
    }
    const got: Received = {
      turn: response.headers.get('x-instar-turn-id')!,
      whole: `Seed ${seed} says one two three four five.`,
      text: '',
      finished: false,
    }
    received.push(got)
    try {
      for await (const line of sse(response)) {
        if (line === '[DONE]') break
        const [choice] = (
          JSON.parse(line) as { choices: { delta: { content?: string }; finish_reason: string | null }[] }
        ).choices
        got.text += choice!.delta.content ?? ''
        got.finished ||= choice!.finish_reason !== null
      }
    } catch {
      return
    }
  }
}

test(`after ${ROUNDS} kills under ${CLIENTS} streaming clients each answer that was received in full is on the log once`, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'instar-kill-'))
  const received: Received[] = []
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const child = spawn(
        process.execPath,
        [fileURLToPath(new URL('../../../../test/kit/processes/gateway.ts', import.meta.url)), folder],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      )
      const [url] = await Promise.race([
        once(createInterface(child.stdout), 'line') as Promise<[string]>,
        once(child, 'exit').then(([code]) => {
          throw new Error(`the gateway ended with ${String(code)} before it listened`)
        }),
      ])
      const before = received.length
      const talking = Array.from({ length: CLIENTS }, (_, client) => talk(url, round * 10 + client, received))
      // Not at a fixed time, but after some answers of this round.
      const inTheMiddle = (): boolean =>
        received.slice(before).filter(({ finished }) => finished).length >= 5 + 3 * round &&
        received.some(({ text, finished }) => text !== '' && !finished)
      while (!inTheMiddle())
        await new Promise((resolve) => {
          setTimeout(resolve, 3)
        })
      child.kill('SIGKILL')
      await Promise.all(talking)
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    }
    const log = await openEmbeddedLog({ folder, readOnly: true })
    try {
      const turns = await turnsOf(log)
      const byId = new Map(turns.map((turn) => [turn.turn, turn]))
      assert.equal(byId.size, turns.length)
      const whole = received.filter(({ text, whole: all }) => text === all)
      assert.ok(received.every(({ finished, text, whole: all }) => !finished || text === all))
      assert.ok(whole.length >= ROUNDS * 5, `${whole.length} whole answers`)
      assert.ok(received.length > whole.length, `${received.length} answers, none of them cut`)
      for (const { turn, whole: all } of whole) {
        const record = byId.get(turn)
        assert.equal(record?.type, 'TurnCaptured', `turn ${turn}`)
        assert.equal(readWritten(record!.text), all)
      }
    } finally {
      await log.close()
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
