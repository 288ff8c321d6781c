/** A hint is inserted into the prompt of the request, in each dialect. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { test } from 'node:test'
import { decodeRecord, written, type BatchItem } from '@instar/events'
import { createTurnReader } from '@instar/log'
import { trainItem } from '@instar/trainer'
import { model, startRig, turnsOf } from '../kit/gateway.ts'

const HINT = 'Answer in one plain paragraph.'
const parameters = { type: 'object', properties: { path: { type: 'string' } } }
const ASKED: readonly (readonly [path: string, json: object])[] = [
  [
    '/v1/chat/completions',
    {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Read b' },
      ],
      tools: [{ type: 'function', function: { name: 'read', parameters } }],
    },
  ],
  [
    '/v1/responses',
    {
      instructions: 'Be brief.',
      input: [{ role: 'user', content: [{ type: 'input_text', text: 'Read b' }] }],
      tools: [{ type: 'function', name: 'read', parameters }],
    },
  ],
  [
    '/v1/responses',
    {
      instructions: 'Be brief.',
      input: 'Read b',
      tools: [{ type: 'function', name: 'read', parameters }, { type: 'web_search' }],
    },
  ],
  [
    '/v1/messages',
    {
      max_tokens: 50,
      system: [{ type: 'text', text: 'Be brief.' }],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Read b' }] }],
      tools: [{ name: 'read', input_schema: parameters }],
    },
  ],
]

test('the prompt with a hint is the same for one request in each dialect', async () => {
  const rig = await startRig()
  try {
    for (const [path, json] of ASKED) equal((await rig.fetch(path, { json })).status, 200)
    const turns = await turnsOf(rig.log)
    const positions = new Map<string, { partition: number; offset: number }>()
    for await (const records of rig.log.read('turns'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type === 'TurnCaptured') positions.set(event.turn, record)
      }
    const reader = createTurnReader(rig.log, (turn) => positions.get(turn))
    const item = (turn: string): BatchItem => ({
      turn,
      record: 'r',
      session: 's',
      score: 's',
      subject: 's',
      version: 0,
      reward: -1,
      baseline: 0,
      advantage: -1,
      hint: written(HINT),
    })
    const hinted = await Promise.all(
      turns.map(async ({ turn }) => (await trainItem({ reader, model }, item(turn), 'hybrid')).hintPrompt),
    )
    const text = model.decode([...hinted[0]!])
    ok(text.includes('Be brief.') && text.includes(`Read b\n${HINT}`) && /"name": ?"read"/.test(text), text)
    for (const ids of hinted) deepEqual(ids, hinted[0])
  } finally {
    await rig.stop()
  }
})
