import {
  contentSha,
  decodeRecord,
  encodeEvent,
  InstarError,
  MAX_DEPTH,
  MAX_INLINE_BYTES,
  storeBody,
  storeIds,
  turnId,
  written,
  type ErrorCode,
  type StoredBody,
  type TurnCaptured,
} from '@instar/events'
import assert from 'node:assert/strict'
import test from 'node:test'
import { putBlob } from './blobs.ts'
import { openMemoryLog } from './memory/log.ts'
import { createTurnReader, type TurnReader } from './turn-reader.ts'

const AT = 1_700_000_000_000
const refused =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === code
const nameOf = (i: number): string => turnId('s', contentSha(Buffer.from(`turn ${i}`)).slice(0, 32))

/** A session as a gateway stores it: every turn refers to the one before it, up to a chain of MAX_DEPTH references. */
class Session {
  readonly log = openMemoryLog()
  readonly positions = new Map<string, { partition: number; offset: number }>()
  readonly bodies: Uint8Array[] = []
  readonly prompts: number[][] = []
  readonly answers: number[][] = []
  readonly stored: StoredBody[] = []
  #depth = { body: 0, ids: 0 }
  reads = 0

  reader(cacheSize?: number, recentBytes = 0): TurnReader {
    const log = Object.assign(Object.create(this.log) as typeof this.log, {
      at: (...args: Parameters<typeof this.log.at>) => {
        this.reads += 1
        return this.log.at(...args)
      },
      read: this.log.read.bind(this.log),
    })
    return createTurnReader(log, (turn) => this.positions.get(turn), cacheSize, 0, recentBytes)
  }

  /** Appends a turn. `change`: fields of the record that are overwritten. */
  async add(
    body: Uint8Array,
    prompt: number[],
    answer: number[],
    change: Partial<TurnCaptured> & { storedBody?: Partial<StoredBody> } = {},
  ): Promise<string> {
    const i = this.bodies.length
    const { storedBody, ...facts } = change
    const before = i === 0 ? null : nameOf(i - 1)
    const reference = storeBody(
      body,
      before === null ? null : { turn: before, content: this.bodies[i - 1]!, depth: this.#depth.body },
    )
    const ids = storeIds(
      prompt,
      before === null
        ? null
        : { turn: before, content: [...this.prompts[i - 1]!, ...this.answers[i - 1]!], depth: this.#depth.ids },
    )
    this.#depth = { body: reference.depth, ids: ids.depth }
    if (reference.stored.blob !== null) await putBlob(this.log, reference.middle, AT)
    const event: TurnCaptured = {
      type: 'TurnCaptured',
      finish: 'stop',
      turn: nameOf(i),
      session: 's',
      policy: 'policy',
      version: 0,
      adapter: null,
      group: nameOf(i),
      candidate: 0,
      candidates: 1,
      dialect: 'chat',
      kind: 'main',
      labelSource: 'header',
      userTurn: null,
      subject: 's',
      key: null,
      digest: contentSha(body),
      body: { ...reference.stored, ...storedBody },
      after: null,
      stateFrom: 0,
      prompt: ids.stored,
      sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 8, stop: [] },
      tokens: 'exact',
      ids: answer,
      logprobs: answer.map(() => -0.5),
      text: written('answer'),
      toolCallIds: [],
      answer: { strict: contentSha(body), loose: contentSha(body) },
      trainable: true,
      reason: null,
      offPrefix: false,
      engine: 'test',
      at: AT,
      firstTokenAt: AT,
      finishedAt: AT,
      ...facts,
    }
    const [position] = await this.log.append([encodeEvent(event)])
    this.positions.set(event.turn, position!)
    this.bodies.push(body)
    this.prompts.push(prompt)
    this.answers.push(answer)
    this.stored.push(event.body)
    return event.turn
  }

  /** Adds turns; each contains the messages of the one before it and one more. */
  async addTurns(turns: number): Promise<void> {
    let messages = 'hello '.repeat(20)
    let prompt = Array.from({ length: 30 }, (_, i) => i)
    for (let i = 0; i < turns; i += 1) {
      const answer = [1000 + i, 2000 + i]
      await this.add(
        Buffer.from(JSON.stringify({ messages, tools: 'the same ones every time, behind the messages '.repeat(3) })),
        prompt,
        answer,
      )
      messages += `message ${i} `
      prompt = [...prompt, ...answer, 3000 + i, 4000 + i]
    }
  }
}

test('bodies and ids are read through up to eight references; then a full copy starts the next chain', async () => {
  const session = new Session()
  await session.addTurns(2 * (MAX_DEPTH + 1) + 3)
  const depths: number[] = []
  for (const cacheSize of [256, 1]) {
    const reader = session.reader(cacheSize)
    for (const [i, body] of session.bodies.entries()) {
      assert.equal(Buffer.from(await reader.body(nameOf(i))).toString(), Buffer.from(body).toString(), `body ${i}`)
      assert.deepEqual(await reader.promptIds(nameOf(i)), session.prompts[i], `ids ${i}`)
      const depth = await reader.depths(nameOf(i))
      assert.equal(depth.body, depth.ids)
      depths.push(depth.body)
    }
  }
  const round = Array.from({ length: MAX_DEPTH + 1 }, (_, i) => i)
  const expected = [...round, ...round, 0, 1, 2]
  assert.deepEqual(depths, [...expected, ...expected])
  for (const [i, { from, written: added, length }] of session.stored.entries()) {
    if (expected[i] === 0) assert.deepEqual([from, added.bytes.length], [null, length])
    else assert.ok(added.bytes.length < 20, `turn ${i} stores ${added.bytes.length} bytes`)
  }
})

test('reading a turn reads at most eight others, each once if the cache has room', async () => {
  const session = new Session()
  await session.addTurns(MAX_DEPTH + 1)
  const reader = session.reader()
  await reader.body(nameOf(MAX_DEPTH))
  assert.equal(session.reads, MAX_DEPTH + 1)
  await reader.promptIds(nameOf(MAX_DEPTH))
  await reader.depths(nameOf(MAX_DEPTH))
  assert.equal(session.reads, MAX_DEPTH + 1)
})

test('the cache keeps the turns that were read last', async () => {
  const session = new Session()
  await session.addTurns(3)
  const reader = session.reader(2)
  for (const i of [0, 1, 0, 2]) await reader.record(nameOf(i))
  assert.equal(session.reads, 3)
  await reader.record(nameOf(0))
  assert.equal(session.reads, 3, 'it was used again before the third came')
  await reader.record(nameOf(1))
  assert.equal(session.reads, 4)
})

test('a large body, and bodies that refer to it, are read from a blob; without the blob missing_blob is thrown', async () => {
  const session = new Session()
  const large = Buffer.from(`${'x'.repeat(MAX_INLINE_BYTES + 1)}`)
  await session.add(large, [1], [2])
  await session.add(Buffer.concat([large, Buffer.from('and more')]), [1], [2])
  assert.ok(session.stored[0]!.blob !== null && session.stored[1]!.blob === null)
  const reader = session.reader()
  assert.equal(contentSha(await reader.body(nameOf(0))), contentSha(large))
  assert.equal(Buffer.from(await reader.body(nameOf(1))).toString('utf8', large.length), 'and more')
  const other = new Session()
  await other.add(large, [1], [2], { storedBody: { blob: contentSha(Buffer.from('never put')) } })
  await assert.rejects(other.reader().body(nameOf(0)), refused('missing_blob'))
})

test('a body with another digest, a prompt with another length, and turns that refer to them throw bad_record', async () => {
  const session = new Session()
  await session.add(Buffer.from('one '.repeat(40)), [1, 2, 3], [4], {
    storedBody: { sha256: contentSha(Buffer.from('another')) },
  })
  await session.add(Buffer.from(`${'one '.repeat(40)}two`), [1, 2, 3, 4, 5], [6])
  const reader = session.reader()
  await assert.rejects(reader.body(nameOf(0)), refused('bad_record'))
  assert.equal(session.stored[1]!.from, nameOf(0))
  await assert.rejects(reader.body(nameOf(1)), refused('bad_record'))
  const short = new Session()
  await short.add(Buffer.from('one'), [1, 2, 3], [4], { prompt: { from: null, prefix: 0, ids: [1, 2], length: 3 } })
  await assert.rejects(short.reader().promptIds(nameOf(0)), refused('bad_record'))
})

test('references without end, and a body that needs more bytes than the earlier one has, throw bad_record', async () => {
  const session = new Session()
  const large = Buffer.from('one '.repeat(40))
  const storedBody = { prefix: 100, suffix: 0 }
  await session.add(large, [1], [2], {
    storedBody: { ...storedBody, from: nameOf(1) },
    prompt: { from: nameOf(1), prefix: 1, ids: [], length: 1 },
  })
  await session.add(large, [1], [2], {
    storedBody: { ...storedBody, from: nameOf(0) },
    prompt: { from: nameOf(0), prefix: 1, ids: [], length: 1 },
  })
  const reader = session.reader()
  for (const read of [reader.body, reader.promptIds, reader.depths])
    await assert.rejects(read(nameOf(0)), refused('bad_record'))
  for (const part of [{ prefix: 2 ** 31 - 1 }, { suffix: 2 ** 31 - 1 }, { prefix: -1 }]) {
    const other = new Session()
    await other.add(large, [1], [2])
    await other.add(large, [1], [2], { storedBody: { from: nameOf(0), prefix: 0, suffix: 0, ...part } })
    await assert.rejects(other.reader().body(nameOf(1)), refused('bad_record'))
  }
})

test('an id that is no turn on the log throws unknown_turn', async () => {
  const session = new Session()
  await session.addTurns(1)
  const reader = session.reader()
  await assert.rejects(reader.record('s.none'), refused('unknown_turn'))
  const [position] = await session.log.append([
    encodeEvent({ type: 'SessionClosed', session: 's', open: [nameOf(0)], why: 'idle', at: AT }),
  ])
  session.positions.set('s.closed', position!)
  await assert.rejects(reader.body('s.closed'), refused('unknown_turn'))
  session.positions.set('s.beyond', { partition: position!.partition, offset: position!.offset + 1 })
  await assert.rejects(reader.body('s.beyond'), refused('unknown_turn'))
})

test('cached bodies are returned without reading the log, the latest up to the byte limit', async () => {
  const reader = createTurnReader(openMemoryLog(), () => undefined, 1, 50_000)
  const bodies = [20_000, 20_000, 20_000, 50_001, 16_000].map((length, i) => Buffer.alloc(length, i))
  for (const [i, body] of bodies.entries()) reader.cacheBody(`s.${i}`, body)
  for (const i of [1, 2]) assert.equal(await reader.body(`s.${i}`), bodies[i])
  for (const i of [0, 3, 4]) await assert.rejects(reader.body(`s.${i}`), { code: 'unknown_turn' })
})

test('a body at the end of a chain is put together with two others in memory at a time, which are held', async () => {
  const session = new Session()
  // Each begins as the one before and has much of its own: a blob.
  const head = Buffer.alloc(1000, 'h')
  const bodyOf = (i: number): Buffer => Buffer.concat([head, Buffer.alloc(700_000 + i, String(i))])
  for (let i = 0; i <= MAX_DEPTH; i += 1) await session.add(bodyOf(i), [1], [2])
  assert.equal(session.stored.at(-1)!.from, nameOf(MAX_DEPTH - 1))
  let [held, most] = [0, 0]
  const hold = (bytes: number): void => {
    held += bytes
    most = Math.max(most, held)
  }
  assert.deepEqual(Buffer.from(await session.reader().body(nameOf(MAX_DEPTH), hold)), bodyOf(MAX_DEPTH))
  // The body before the last but one, the last but one and its own bytes.
  assert.ok(most > 3 * 700_000 && most < 3 * 702_000, `${most} bytes at most`)
  assert.equal(held, 0)
  const full = new InstarError('overloaded', 'no room')
  const reads = session.reads
  await assert.rejects(
    session.reader().body(nameOf(MAX_DEPTH), (bytes) => {
      if (bytes > 0) throw full
    }),
    full,
  )
  assert.equal(session.reads, reads + MAX_DEPTH + 1, 'records alone are read')
})

test('a record that a follower has read is not read again, until newer ones take its place', async () => {
  const session = new Session()
  const records: TurnCaptured[] = []
  for (let i = 0; i < 3; i += 1) await session.add(Buffer.from(`body ${i}`), [i], [i])
  for await (const batch of session.log.read('turns'))
    for (const record of batch) records.push(decodeRecord(record).event as TurnCaptured)
  const all = session.reader(1, Infinity)
  for (const record of records) all.keepRecent(record)
  const most = all.recentBytes() - 1
  const reader = session.reader(1, most)
  for (const record of records) reader.keepRecent(record)
  assert.ok(reader.recentBytes() > 0 && reader.recentBytes() <= most)
  assert.equal((await reader.record(nameOf(1))).turn, nameOf(1))
  await reader.record(nameOf(2))
  assert.equal(session.reads, 0)
  await reader.record(nameOf(0))
  assert.equal(session.reads, 1)
})
