/** What is read of an engine's errors, however long they are. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { test, type TestContext } from 'node:test'
import { startEngineHttp } from '../../../../test/kit/engine-http.ts'
import { vllm } from '../protocols/vllm.ts'
import type { WireRequest } from '../protocols/wire.ts'
import { embeddings } from './embeddings.ts'
import type { EngineHttp } from './http.ts'
import { deltas } from './probe.ts'

const MIB = 1024 * 1024
/** More than is taken of any response. */
const LENGTH = 65 * MIB
const REQUEST: WireRequest = {
  model: 'm',
  adapter: null,
  prompt: [1],
  sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 1, stop: [] },
  topLogprobs: 0,
  endOfTurn: [],
  chat: null,
}

/** An engine that answers each request with an error of 65 MiB. */
const start = async (t: TestContext, status: number): Promise<EngineHttp> => {
  const part = Buffer.alloc(MIB / 4, 'x')
  const parts = Array.from({ length: LENGTH / part.length }, () => part)
  return startEngineHttp(t, (response) => {
    response.writeHead(status, { 'content-type': 'text/plain' })
    // The client closes the connection before the end.
    pipeline(Readable.from(parts), response).catch(() => undefined)
  })
}

test('of an error 64 KiB are read', async (t) => {
  const http = await start(t, 500)
  const { status, body, text } = await http.json('GET', '/', null)
  assert.deepEqual([status, body, text.length], [500, null, 64 * 1024])
})

test('the error of an answer or of embeddings is told by its status, not by its length', async (t) => {
  const refusing = await start(t, 400)
  await assert.rejects(deltas(refusing, vllm, REQUEST).next(), { code: 'engine_refused', message: /: x{200,300}/ })
  await assert.rejects(embeddings(refusing, 'vllm', { model: 'm' }), { code: 'engine_refused' })
  const failing = await start(t, 503)
  await assert.rejects(deltas(failing, vllm, REQUEST).next(), { name: 'Error', kind: 'status', status: 503 })
})
