/** The gate on servers that die, and on a pipeline that stops. */
import assert from 'node:assert/strict'
import { after, afterEach, test } from 'node:test'
import { candidatesAt, GateRig } from './gate-rig.ts'
import { Cut } from './server.ts'

const rig = new GateRig()
afterEach(() => rig.stop())
after(() => rig.remove())

test('a server that dies during a measurement delays the verdict; nothing is lost', async () => {
  await rig.serve()
  const [server] = rig.servers
  let died = 0
  const restart = async (): Promise<void> => {
    await server!.kill()
    // A restarted server has no adapters.
    server!.loaded.clear()
    await server!.start()
  }
  server!.behaviour = {
    say: () => '',
    admitNext: ({ body }) => {
      if (died > 0 || body['model'] === 'base') return 200
      died += 1
      void restart()
      throw new Cut('the server dies')
    },
  }
  await rig.start('dies')
  const { type } = await rig.verdict()
  assert.equal(died, 1)
  assert.equal(type, 'VersionPublished')
  assert.deepEqual(candidatesAt(server!), [])
})

test('a pipeline that stops during a measurement decides nothing, and decides after its restart', async () => {
  await rig.serve()
  const [server] = rig.servers
  const waiting = Promise.withResolvers<void>()
  server!.behaviour = {
    say: () => '',
    admitNext: ({ body }) => {
      if (body['model'] === 'base') return 200
      waiting.resolve()
      return new Promise<never>(() => undefined)
    },
  }
  await rig.start('stops')
  await rig.converse()
  await waiting.promise
  assert.equal(candidatesAt(server!).length, 1)
  await rig.stopPipeline()
  server!.behaviour = { say: () => '' }
  await rig.start('stops')
  await rig.running.settled()
  const { verdicts } = await rig.line()
  assert.deepEqual(
    verdicts.map(({ type }) => type),
    ['VersionPublished'],
  )
  assert.deepEqual(candidatesAt(server!), [])
})
