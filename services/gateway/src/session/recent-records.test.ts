/** Records that the gateways of a log have read are not read again for the next request of their session. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import { startRig, USER, type Rig } from '../../../../test/kit/gateway.ts'

const TURNS = 4

/** How often the gateways read one record of the log while each turn of a conversation goes to the next of them. */
const readsWith = async (gateways: number, settings: object): Promise<number> => {
  const log = openMemoryLog()
  const at = log.at.bind(log)
  let [reads, answers] = [0, 0]
  log.at = (position) => {
    reads += 1
    return at(position)
  }
  const rigs: Rig[] = []
  const script = (): string => `Answer ${(answers += 1)}, which nobody else gave.`
  for (let i = 0; i < gateways; i += 1) rigs.push(await startRig({ log, script, settings }))
  const said: { role: 'user' | 'assistant'; content: string }[] = []
  const sessions = new Set<string | null>()
  for (let turn = 0; turn < TURNS; turn += 1) {
    said.push(USER(`What is ${turn} plus 3?`))
    const response = await rigs[turn % gateways]!.fetch('/v1/chat/completions', {
      json: { model: 'policy', messages: said },
    })
    const { choices } = (await response.json()) as { choices: { message: (typeof said)[number] }[] }
    said.push(choices[0]!.message)
    sessions.add(response.headers.get('x-instar-session-id'))
  }
  assert.equal(sessions.size, 1)
  if (gateways > 1) assert.match(await (await rigs[0]!.fetch('/metrics')).text(), /instar_recent_records_bytes \d/)
  for (const rig of rigs) await rig.stop()
  return reads
}

test('a continuation reads no record that passed by, at the gateway that answered and at others', async () => {
  assert.deepEqual([await readsWith(1, {}), await readsWith(4, {})], [0, 0])
})

test('without memory for them each gateway reads the records of the conversation one by one', async () => {
  assert.deepEqual([await readsWith(1, { recentRecordBytes: 0 }), await readsWith(4, { recentRecordBytes: 0 })], [3, 6])
})
