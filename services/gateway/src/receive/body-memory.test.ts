/** The memory of a gateway at the limit on the bodies of all requests, measured in a process of its own. */
import assert from 'node:assert/strict'
import { fork, type ChildProcess } from 'node:child_process'
import { on } from 'node:events'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { Measured } from '../../../../test/kit/processes/body-memory.ts'

const MIB = 1024 * 1024
const SIZE = 8 * MIB
/** A body takes twice its size, as it came and parsed: 13 bodies take 208 MiB, and the address may have 224 of 256. */
const COUNT = 13
const ROUNDS = 12
const BODY = JSON.stringify({
  model: 'policy',
  messages: [{ role: 'user', content: 'Hi' }],
  metadata: { note: 'x'.repeat(SIZE) },
})

/** Messages of the process, in order. */
class Messages {
  private readonly child: ChildProcess
  private readonly messages: AsyncIterator<unknown[]>
  constructor(child: ChildProcess) {
    this.child = child
    this.messages = on(child, 'message')
  }
  /** The next message that has the field. */
  async next<T>(name: keyof T & string): Promise<T> {
    for (;;) {
      const [message] = (await this.messages.next()).value as [object]
      if (name in message) return message as T
    }
  }
  measure(): Promise<Measured> {
    this.child.send('measure')
    return this.next('live')
  }
}

test('at the limit bodies take the memory that they are charged, which is free afterwards', async (t) => {
  const child = fork(fileURLToPath(new URL('../../../../test/kit/processes/body-memory.ts', import.meta.url)))
  t.after(() => child.kill())
  const messages = new Messages(child)
  const { url } = await messages.next<{ url: string }>('url')
  const ask = async (): Promise<number> => {
    const response = await fetch(`${url}/v1/chat/completions`, { method: 'POST', body: BODY })
    await response.arrayBuffer()
    return response.status
  }
  const charged = async (): Promise<number> =>
    Number(/^instar_request_body_bytes (\d+)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1])
  const begin = async (): Promise<Promise<number>[]> => {
    const asked = Array.from({ length: COUNT }, ask)
    while ((await messages.next<{ waiting: number }>('waiting')).waiting < COUNT);
    return asked
  }
  const before = await messages.measure()
  const asked = await begin()
  const held = await charged()
  assert.ok(held > 2 * COUNT * SIZE && held < 2.01 * COUNT * SIZE, `${held} bytes are charged`)
  assert.equal(await ask(), 429)
  const during = await messages.measure()
  t.diagnostic(
    `${COUNT} bodies: ${(held / MIB).toFixed(0)} MiB charged, ${((during.live - before.live) / MIB).toFixed(0)} MiB in memory`,
  )
  assert.ok(during.live - before.live < 1.1 * held + 48 * MIB)
  assert.ok(during.live - before.live > 0.9 * held)
  child.send('answer')
  assert.deepEqual(new Set(await Promise.all(asked)), new Set([200]))
  for (let round = 1; round < ROUNDS; round += 1) {
    const all = await begin()
    child.send('answer')
    await Promise.all(all)
  }
  while ((await charged()) > 0);
  const after = await messages.measure()
  t.diagnostic(
    `${ROUNDS * COUNT} bodies: ${((after.live - before.live) / MIB).toFixed(0)} MiB stay, the resident set grew to ${((after.peak - before.peak) / MIB).toFixed(0)} MiB more`,
  )
  // The newest bodies are cached, up to 32 MiB.
  assert.ok(after.live - before.live < 48 * MIB)
  assert.ok(after.peak - before.peak < 900 * MIB)
})
