/** The log grows with new text of a conversation, not with what every request repeats. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { InstarError, MAX_DEPTH, MAX_INLINE_BYTES } from '@instar/events'
import { createTurnReader, getBlob, openMemoryLog } from '@instar/log'
import { startRig, turnsOf, USER, withAppend } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'
import { tokenizerModel } from '../../../../test/kit/tokenizer-model.ts'

const TURNS = 40
/**
 * Bytes of `turns` per byte of new text (user messages and answers), everything included: ids and log-probs of the
 * answer (about 6 bytes a token), the ids of the new prompt, about 1 KiB of other fields a turn, and the whole
 * conversation once in nine turns.
 */
const FACTOR = 9

test(
  `${TURNS} turns of one conversation grow linearly with new text, have chains of at most ${MAX_DEPTH} references, and give each body back`,
  { timeout: 60_000 },
  async (t) => {
    const log = openMemoryLog()
    const model = tokenizerModel(65_536)
    let fresh = 0
    const answer = (i: number): string =>
      `Answer ${i}: ${'the quick brown fox jumps over the lazy dog and '.repeat(8)}rests.`
    const rig = await startRig({
      log,
      engine: new ScriptedEngine(model, ({ prompt }) => answer(model.decode([...prompt]).split('Question').length - 1)),
      ports: { model },
    })
    try {
      const messages: object[] = [{ role: 'system', content: 'You answer questions. '.repeat(40) }]
      const bodies: string[] = []
      const sizes: number[] = []
      for (let i = 1; i <= TURNS; i += 1) {
        const question = `Question ${i}: ${'what do you think about the weather in Spain? '.repeat(6)}`
        messages.push(USER(question))
        bodies.push(JSON.stringify({ model: 'policy', messages, user: 'anna', max_tokens: 1000 }))
        const response = await rig.fetch('/v1/chat/completions', { method: 'POST', body: bodies.at(-1)! })
        const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
        const { content } = choices[0]!.message
        assert.equal(content, answer(i))
        messages.push({ role: 'assistant', content })
        fresh += question.length + content.length
        let bytes = 0
        for await (const records of log.read('turns')) for (const { payload } of records) bytes += payload.length
        sizes.push(bytes)
      }
      const turns = await turnsOf(log)
      assert.equal(turns.length, TURNS)
      assert.equal(new Set(turns.map(({ session }) => session)).size, 1)
      const positions = new Map<string, { partition: number; offset: number }>()
      let i = 0
      for await (const records of log.read('turns'))
        for (const { partition, offset } of records) positions.set(turns[i++]!.turn, { partition, offset })
      const reader = createTurnReader(log, (turn) => positions.get(turn))
      const depths: { body: number; ids: number }[] = []
      for (const [at, { turn }] of turns.entries()) {
        depths.push(await reader.depths(turn))
        assert.equal(Buffer.from(await reader.body(turn)).toString(), bodies[at])
      }
      assert.equal(Math.max(...depths.map(({ body }) => body)), MAX_DEPTH)
      assert.equal(Math.max(...depths.map(({ ids }) => ids)), MAX_DEPTH)
      const sent = bodies.reduce((sum, { length }) => sum + length, 0)
      const stored = sizes.at(-1)!
      t.diagnostic(
        `${fresh} bytes are new, ${sent} were sent, ${stored} are on turns (${(stored / fresh).toFixed(2)} of the new)`,
      )
      assert.ok(stored <= FACTOR * fresh, `${stored} bytes for ${fresh} new ones`)
      // Between two full copies the last turn costs as much as the first.
      const grew = sizes.map((size, at) => size - (sizes[at - 1] ?? 0))
      const leaning = grew.filter((_, at) => depths[at]!.body > 0 && depths[at]!.ids > 0)
      assert.ok(
        Math.max(...leaning) < 1.5 * Math.min(...leaning),
        `${Math.min(...leaning)} to ${Math.max(...leaning)} bytes a turn`,
      )
    } finally {
      await rig.stop()
    }
  },
)

test('new text over 512 KiB is stored in blobs, and repetitions refer to it', async () => {
  const rig = await startRig()
  try {
    const padding = 'x'.repeat(MAX_INLINE_BYTES)
    const first = JSON.stringify({
      model: 'policy',
      metadata: { padding },
      messages: [USER('Hello to you, how are you today?')],
    })
    const answered = (await (await rig.fetch('/v1/chat/completions', { method: 'POST', body: first })).json()) as {
      choices: { message: { content: string } }[]
    }
    const second = JSON.stringify({
      model: 'policy',
      metadata: { padding },
      messages: [
        USER('Hello to you, how are you today?'),
        { role: 'assistant', content: answered.choices[0]!.message.content },
        USER('Fine.'),
      ],
    })
    assert.equal((await rig.fetch('/v1/chat/completions', { method: 'POST', body: second })).status, 200)
    const [one, two] = await turnsOf(rig.log)
    assert.equal(one!.body.written.bytes.length, 0)
    assert.equal(Buffer.from(await getBlob(rig.log, one!.body.blob!, one!.at)).toString(), first)
    assert.deepEqual([two!.body.from, two!.body.blob], [one!.turn, null])
    assert.ok(two!.body.written.bytes.length < 200, `${two!.body.written.bytes.length} bytes`)
  } finally {
    await rig.stop()
  }
})

test('an append of a large body waits as long for a full log as an append of a turn', { timeout: 20_000 }, async () => {
  const log = withAppend(openMemoryLog(), (records, next) =>
    records[0]!.topic === 'blobs' ? Promise.reject(new InstarError('log_unavailable', 'away')) : next(),
  )
  const rig = await startRig({ log, settings: { appendPatienceMs: 60 } })
  try {
    const response = await rig.fetch('/v1/chat/completions', {
      json: { model: 'policy', metadata: { padding: 'x'.repeat(MAX_INLINE_BYTES) }, messages: [USER('Hi')] },
    })
    assert.deepEqual(
      [response.status, ((await response.json()) as { error: { code: string } }).error.code],
      [503, 'log_unavailable'],
    )
    assert.deepEqual(await turnsOf(log), [])
  } finally {
    await rig.stop()
  }
})
