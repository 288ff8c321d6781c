import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { Live, MOST_PAGES, MOST_PAGES_EACH } from './live.ts'

const listen = async (t: TestContext, open: (raw: ServerResponse) => void): Promise<number> => {
  const server = createServer((_request, response) => open(response)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.closeAllConnections())
  t.after(() => server.close())
  return (server.address() as AddressInfo).port
}

test('a page that does not read is dropped, and readings are not kept for it', async (t) => {
  let readings = 0
  // Ends the test if the page is never dropped.
  const patience = 200
  const live = new Live({
    read: async () => ({ at: '', reading: (readings += 1), text: readings < patience ? 'x'.repeat(1 << 20) : '' }),
    everyMs: 20,
    pingMs: 10_000,
    stalledMs: 1000,
  })
  t.after(() => live.stop())
  let most = 0
  const closed = Promise.withResolvers<void>()
  const port = await listen(t, (raw) => {
    live.open(raw, {}, 'a')
    raw.once('close', closed.resolve)
    const look = setInterval(() => (most = Math.max(most, raw.writableLength)), 5)
    raw.once('close', () => clearInterval(look))
  })
  const page = connect(port, '127.0.0.1')
  page.on('error', () => undefined)
  page.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  page.pause()
  t.after(() => page.destroy())
  await closed.promise
  assert.ok(readings > 30 && readings < patience, `${readings} readings`)
  assert.ok(most < 4 * (1 << 20), `${most} bytes waited for a page that reads nothing`)
  assert.equal(live.size, 0)
})

test('one caller cannot open the pages of all others', async (t) => {
  const live = new Live({ read: async () => ({}), everyMs: 10_000, pingMs: 10_000, stalledMs: 10_000 })
  t.after(() => live.stop())
  let who = ''
  const port = await listen(t, (raw) => live.open(raw, {}, who))
  const openPages = async (caller: string, count: number): Promise<void> => {
    who = caller
    for (let page = 0; page < count; page += 1) {
      live.checkRoom(caller)
      const socket = connect(port, '127.0.0.1')
      t.after(() => socket.destroy())
      socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
      await once(socket, 'data')
    }
  }
  await openPages('a', MOST_PAGES_EACH)
  assert.throws(() => live.checkRoom('a'), { code: 'overloaded' })
  await openPages('b', MOST_PAGES_EACH)
  await openPages('c', MOST_PAGES - 2 * MOST_PAGES_EACH)
  assert.throws(() => live.checkRoom('d'), { code: 'overloaded' })
})
