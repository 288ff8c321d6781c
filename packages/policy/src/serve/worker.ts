/** The worker thread that runs the model. It posts one message per step of the batch. */
import { parentPort, workerData } from 'node:worker_threads'
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { plainError } from '@instar/events/plain-error'
import { hashCheckpoint, loadTokenizer, loadWeights } from '../checkpoints/open.ts'
import { readAdapter } from '../checkpoints/peft.ts'
import { createRuntime } from '../runtime/runtime.ts'
import { Constrainer } from '@instar/grammar'
import { Batcher } from './batch.ts'
import type { FromWorker, ToWorker, WorkerData } from './protocol.ts'
import { ServingShare } from '../share/core-share.ts'
import { RowCaches } from './row-caches.ts'

const port = parentPort
if (!port) throw new Error('worker.ts runs in a worker thread')
const post = (message: FromWorker) => port.postMessage(message)
// `exit` is received between two steps, and while the model is being loaded.
port.on('message', (message: ToWorker) => {
  if (message.type === 'exit') process.exit(1)
})

async function main(options: WorkerData): Promise<void> {
  const { config, weights } = loadWeights(options.model)
  const { tokenizer, endOfTurn } = loadTokenizer(options.model)
  const base = await hashCheckpoint(options.model)
  const runtime = await createRuntime({ config, weights, base, engine: options.engine, threads: options.threads })
  const decoder = new RowCaches(runtime, options)
  // Compiles the program now: the first request does not wait for it, and a model that cannot run fails the start.
  await decoder.step([{ row: 0, keep: 0, ids: [0], slot: null, logits: 1 }])
  const constrainer = new Constrainer(tokenizer, config.vocabulary, endOfTurn)
  const batcher = new Batcher(decoder, tokenizer, endOfTurn, options, constrainer)
  // `splice` releases the copies of the bytes.
  for (const adapter of options.adapters.splice(0)) batcher.adapters.load(adapter.sha256, readAdapter(adapter, config))
  const share = new ServingShare(options.share, runtime.backend.threads)
  let running = false
  let closing = false

  /**
   * Runs steps until the batch is idle. Between steps new requests and aborts are received, and learning has its share.
   */
  const run = async () => {
    if (running) return
    running = true
    while (!closing && !batcher.idle()) {
      const startedAt = performance.now()
      share.begins(startedAt)
      const events = await batcher.step()
      const ms = performance.now() - startedAt
      if (events.length > 0) post({ type: 'events', events })
      await share.ended(ms)
      await yieldToEventLoop()
    }
    running = false
    if (closing) {
      await runtime.close()
      port?.close()
    }
  }

  const respond = (call: number, perform: () => unknown) => {
    try {
      perform()
      post({ type: 'done', call, error: null })
    } catch (error) {
      post({ type: 'done', call, error: plainError(error) })
    }
  }

  port?.on('message', (message: ToWorker) => {
    switch (message.type) {
      case 'submit':
        batcher.submit(message.key, message.request)
        break
      case 'abort':
        batcher.abort(message.key)
        break
      case 'unload':
        batcher.adapters.unload(message.sha256)
        break
      case 'exit':
        return
      case 'close':
        closing = true
        break
      case 'load':
        respond(message.call, () => batcher.adapters.load(message.adapter.sha256, readAdapter(message.adapter, config)))
        break
      case 'check':
        respond(message.call, () => constrainer.compile(message.constraint))
        break
    }
    run().catch((error: unknown) => post({ type: 'failed', error: plainError(error) }))
  })

  const { engine, build, isa, threads } = runtime.fingerprint()
  post({
    type: 'ready',
    base,
    capabilities: {
      engine,
      fingerprint: `${engine}; ${build}; ${isa}; ${threads} threads`,
      contextLength: config.contextLength,
      vocabulary: config.vocabulary,
      tokenExact: true,
      logprobs: true,
      maxBatch: options.rows,
    },
  })
}

main(workerData as WorkerData).catch((error: unknown) => post({ type: 'failed', error: plainError(error) }))
