/** The learning thread. It performs one call at a time, in the order of arrival. */
import { parentPort, workerData } from 'node:worker_threads'
import { InstarError } from '@instar/events/errors'
import { hashCheckpoint, loadTokenizer, loadWeights, parameterCount } from '../checkpoints/open.ts'
import { readAdapter } from '../checkpoints/peft.ts'
import type { Lora } from '../checkpoints/peft.ts'
import { completionLogprobs, ownLogprobs } from '../forward.ts'
import type { AdapterSha } from '@instar/engine/port'
import { createRuntime } from '../runtime/runtime.ts'
import { plainError } from '@instar/events/plain-error'
import { PARENT_SLOT, STEP_SLOTS, Trainer } from '../step.ts'
import { defaultThreads } from './threads.ts'
import { evaluate } from './evaluate.ts'
import { LearningWork } from '../share/core-share.ts'
import { lowerPriority } from './priority.ts'
import type { Calls, CallName, FromLearner, LearnWorkerData, ToLearner } from './protocol.ts'

const port = parentPort
if (!port) throw new Error('worker.ts runs in a worker thread')
const post = (message: FromLearner): void => {
  port.postMessage(message)
}
// `exit` is received between two native calls, and while the model is being loaded.
port.on('message', (message: ToLearner) => {
  if (message.type === 'exit') process.exit(1)
})

async function main(options: LearnWorkerData): Promise<void> {
  lowerPriority()
  const { config, weights } = loadWeights(options.model)
  const { tokenizer, endOfTurn } = loadTokenizer(options.model)
  const base = await hashCheckpoint(options.model)
  const runtime = await createRuntime({
    config,
    weights,
    base,
    engine: options.engine,
    threads: options.threads ?? defaultThreads(parameterCount(options.model)),
  })
  const trainer = new Trainer(runtime, base)
  const work = options.share && new LearningWork(options.share, runtime.backend.threads)
  const sampler = { runtime, tokenizer, endOfTurn: new Set(endOfTurn) }
  // `splice` releases the copies of the bytes.
  const adapters = new Map<string, Lora>(
    options.adapters.splice(0).map((adapter) => [adapter.sha256, readAdapter(adapter, config)]),
  )

  /** Runs `body` with the adapters installed in slots above PARENT_SLOT, one per distinct adapter; null is the base. */
  const withSlots = async <T>(
    requested: readonly AdapterSha[],
    body: (slots: (number | null)[]) => Promise<T>,
  ): Promise<T> => {
    const distinct = [...new Set(requested.filter((sha256): sha256 is string => sha256 !== null))]
    distinct.forEach((sha256, at) => {
      const lora = adapters.get(sha256)
      if (!lora) throw new InstarError('unknown_adapter', `The adapter ${sha256} is not loaded.`, { adapter: sha256 })
      runtime.setAdapterSlot(PARENT_SLOT + 1 + at, lora)
    })
    try {
      return await body(
        requested.map((sha256) => (sha256 === null ? null : PARENT_SLOT + 1 + distinct.indexOf(sha256))),
      )
    } finally {
      distinct.forEach((_, at) => {
        runtime.setAdapterSlot(PARENT_SLOT + 1 + at, null)
      })
    }
  }

  /** Throws unless the prompt is not empty and both fit the context. `item`: index of the prompt in the call. */
  const checkLength = (prompt: readonly number[], completion: readonly number[], item = 0): void => {
    const tokens = prompt.length + completion.length
    if (prompt.length === 0) throw new InstarError('bad_request', 'The prompt is empty.', { item })
    if (tokens > config.contextLength)
      throw new InstarError(
        'context_length_exceeded',
        `The sequence has ${tokens} tokens; the model's context has ${config.contextLength}.`,
        { item, tokens, context: config.contextLength },
      )
  }

  const perform = async (
    message: Exclude<ToLearner, { type: 'close' | 'exit' }>,
  ): Promise<Calls[CallName]['result']> => {
    switch (message.type) {
      case 'load':
        adapters.set(message.request.adapter.sha256, readAdapter(message.request.adapter, config))
        return null
      case 'unload':
        adapters.delete(message.request.sha256)
        return null
      case 'step': {
        const { items, settings, parent } = message.request
        try {
          return await trainer.step(items, settings, parent, (share) => {
            post({ type: 'progress', call: message.call, share })
          })
        } finally {
          for (const slot of STEP_SLOTS) runtime.setAdapterSlot(slot, null)
        }
      }
      case 'evaluate': {
        const { request } = message
        request.prompts.forEach((prompt, item) => {
          checkLength(prompt, [0], item)
        })
        return withSlots([request.adapter, ...request.references], ([adapter = null, ...references]) =>
          evaluate(sampler, request, { adapter, references }),
        )
      }
      case 'score': {
        const { request } = message
        checkLength(request.prompt, request.completion)
        if (request.completion.length === 0) return new Float32Array()
        return withSlots([request.adapter], async ([slot = null]) => {
          const [rows] = await completionLogprobs(runtime, [
            { prompt: request.prompt, completion: request.completion, temperature: request.temperature, slot },
          ])
          return ownLogprobs(rows as Float32Array, request.completion)
        })
      }
    }
  }

  let last: Promise<void> = Promise.resolve()
  port?.on('message', (message: ToLearner) => {
    if (message.type === 'exit') return
    if (message.type === 'close') {
      last = last.then(async () => {
        await runtime.close()
        port?.close()
      })
      return
    }
    last = last.then(async () => {
      work?.begin()
      try {
        post({ type: 'result', call: message.call, result: await perform(message) })
      } catch (error) {
        post({ type: 'error', call: message.call, error: plainError(error) })
      } finally {
        work?.end()
      }
    })
  })
  post({ type: 'ready', fingerprint: runtime.fingerprint(), choice: runtime.choice })
}

main(workerData as LearnWorkerData).catch((error: unknown) => {
  post({ type: 'failed', error: plainError(error) })
})
