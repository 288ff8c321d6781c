/**
 * One answer of chosen weights, token by token, for the page Compare: to a typed prompt, or to the prompt of a recorded
 * turn, by its recorded ids. A request like any other for the engine; no turn, and nothing is written to the log.
 */
import { asInstarError, DIALECTS } from '@instar/dialects'
import { contextLengthExceeded, InstarError, type WeightLine } from '@instar/events'
import { orAborted } from '@instar/engine/or-aborted'
import type { Hold, Sampling } from '@instar/engine/port'
import type { ReadModel } from '@instar/projections/read-model'
import type { ServerResponse } from 'node:http'
import { z } from 'zod'
import { Cancelled } from '../generate/candidate.ts'
import type { AnswerPorts } from '../generate/context.ts'
import { EventStream } from '../generate/event-stream.ts'
import { faultOfCancellation, requesting } from '../generate/request.ts'
import { beyondContext } from '../prompt/counting.ts'
import type { Lease } from '../versions/pool.ts'

export type SamplePorts = {
  /** Throws `stopping`. */
  admitting: () => AnswerPorts
  /** The line of a branch; undefined: there is none. */
  branch: (name: string) => WeightLine | undefined
  readModel: ReadModel | null
}

const MOST_TOKENS = 2_048
const text = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\0]*$/)
const number = z.int().min(0).max(1e9)

/** `update`: the number of one that the gate rejected. */
const weights = z.union([
  z.strictObject({ version: number }),
  z.strictObject({ branch: text }),
  z.strictObject({ update: number }),
])
export const sampleBody = z.strictObject({
  weights,
  prompt: z.union([z.strictObject({ text: z.string().min(1).max(20_000) }), z.strictObject({ turn: text })]),
  temperature: z.number().min(0).max(2).optional(),
  seed: number.default(1),
  max_tokens: z.int().min(1).max(MOST_TOKENS).default(512),
})
type SampleRequest = z.output<typeof sampleBody>

const leaseOf = async (ports: SamplePorts, { pool }: AnswerPorts, of: SampleRequest['weights']): Promise<Lease> => {
  if ('version' in of) return pool.lease(of.version)
  if ('branch' in of) {
    const line = ports.branch(of.branch)
    const head = line?.versions.get(line.head)
    if (!line?.started || !head)
      throw new InstarError('unknown_branch', `There is no branch ${JSON.stringify(of.branch)}.`)
    return head.adapter === null ? pool.lease(0) : pool.leaseAdapter(head.adapter, head.blobsAt)
  }
  if (!ports.readModel)
    throw new InstarError('not_available', 'This gateway has no database to look up rejected updates (DATABASE_URL).')
  const rejected = await ports.readModel.rejected(of.update)
  if (!rejected)
    throw new InstarError('unknown_version', `The gate has rejected no update ${of.update}.`, { version: of.update })
  return pool.leaseAdapter(String(rejected['adapter']), Date.parse(String(rejected['since'])))
}

/** Throws `not_available`, `unknown_turn`, `context_length_exceeded`. */
const promptOf = async (
  { reader, model, engine }: AnswerPorts,
  { prompt }: SampleRequest,
): Promise<{ ids: readonly number[]; like: Pick<Sampling, 'temperature' | 'topP' | 'topK' | 'stop'> }> => {
  const { engine: name, chat } = engine.capabilities()
  if (chat) throw new InstarError('not_available', `The engine ${name} takes messages alone, not tokens.`)
  if ('turn' in prompt)
    return { ids: await reader.promptIds(prompt.turn), like: (await reader.record(prompt.turn)).sampling }
  const request = DIALECTS.chat.request({ messages: [{ role: 'user', content: prompt.text }] }, [])
  const beyond = beyondContext(model, request)
  if (beyond !== null) throw contextLengthExceeded(beyond, model.contextLength)
  return { ids: model.promptIds(request.messages, { tools: [] }), like: { ...model.defaults, stop: [] } }
}

/** Sends `{start}`, `{tokens}`…, `{finish}`, or `{error}`. Throws InstarError while nothing has been sent. */
export const sample = (
  ports: SamplePorts,
  { response, revoked, hold }: { response: ServerResponse; revoked: AbortSignal; hold: Hold },
  asked: SampleRequest,
): Promise<void> => {
  const answering = ports.admitting()
  return requesting(answering, { response, revoked }, async ({ controller: { signal }, takePlace, before }) => {
    const { engine, model } = answering
    const { ids, like } = await before(promptOf(answering, asked))
    if (ids.length >= model.contextLength) throw contextLengthExceeded(ids.length, model.contextLength)
    takePlace()
    const lease = await orAborted(leaseOf(ports, answering, asked.weights), signal, (late) => late.release())
    const sampling: Sampling = {
      temperature: asked.temperature ?? like.temperature,
      topP: like.topP,
      topK: Math.max(0, like.topK),
      seed: asked.seed,
      maxTokens: Math.min(asked.max_tokens, model.contextLength - ids.length),
      stop: like.stop,
    }
    const events = new EventStream(response, {}, answering)
    const send = async (data: object): Promise<void> => {
      signal.throwIfAborted()
      if (!(await events.send([{ data }]))) throw new Cancelled('client_gone')
    }
    try {
      const request = { prompt: ids, sampling, adapter: lease.adapter, topLogprobs: 0, hold }
      await send({ start: { prompt_tokens: ids.length, temperature: sampling.temperature, adapter: lease.adapter } })
      for await (const piece of engine.generate(request, signal)) {
        if (piece.type === 'tokens')
          await send({
            tokens: piece.tokens.map(({ id, text: said, logprob, unreported }) => ({
              id,
              text: said,
              logprob: unreported ? null : logprob,
            })),
          })
        else await send(piece.type === 'end' ? { finish: piece.reason, text: piece.text } : { text: piece.text })
      }
      events.done([{ data: '[DONE]' }])
    } catch (error) {
      if (!events.opened) throw error
      const { code, message } = faultOfCancellation(signal.aborted ? signal.reason : asInstarError(error))
      events.done([{ data: { error: { code, message } } }, { data: '[DONE]' }])
    } finally {
      events.close()
      lease.release()
    }
  })
}
