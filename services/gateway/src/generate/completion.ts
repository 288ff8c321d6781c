/**
 * A request for an answer, in any dialect, stage by stage: receive, admit, prepare, generate and reply. Each stage adds
 * its results to the context of the turn.
 */
import { InstarError, turnId, type RecordedSampling } from '@instar/events'
import type { Model } from '@instar/engine/port'
import { parseJson, type Fields, type Request } from '@instar/dialects'
import { headerText } from '../receive/core/header-text.ts'
import { versionOf } from '../versions/core/model-name.ts'
import { carriedBy, clientOf } from '../session/core/recent-requests.ts'
import { chatOf } from './core/chat-asked.ts'
import { checkAnswerLogprobs } from './core/logprob-limit.ts'
import { optedOut, seedsOf, whyNotTrainable } from '../capture/core/turn.ts'
import { admit } from '../prompt/admission.ts'
import { hex } from './random.ts'
import type { Task } from './candidate.ts'
import { constrained } from './constrained.ts'
import { promptTokens } from '../prompt/counting.ts'
import { largerWithItems, resolveReferences } from '../session/references.ts'
import type { AnswerCall, AnswerPorts, AnswerReply, Context, Prepared, Prompted, Received } from './context.ts'
import { replyAsStream, replyWhole } from './reply.ts'
import { requesting } from './request.ts'
import { spanning } from '../admin/spans.ts'

export const answer = (ports: AnswerPorts, call: AnswerCall): Promise<AnswerReply> =>
  spanning(call.headers, call.onFault, (span, onFault) => {
    const at = ports.now()
    const sent = parseJson(call.body)
    return requesting(ports, call, async (running) => {
      const received = await receive(ports, { ...call, ...running, onFault, span, at }, sent)
      const prompted = await admitTurn(ports, received)
      const prepared = prepare(ports, prompted)
      return received.request.stream ? await replyAsStream(ports, prepared) : await replyWhole(ports, prepared)
    })
  })

/** Parses the request and leases the version that serves it. */
const receive = async (ports: AnswerPorts, context: Context, sent: Fields): Promise<Received> => {
  const { dialect, key, hold, span, before, enter } = context
  const body = await before(resolveReferences(ports, dialect, { key, hold, gone: context.controller.signal }, sent))
  const raw = body === sent ? context.body : written(body, ports.bodyLimit, hold)
  const asked = dialect.request(body, ports.engine.capabilities().accepts)
  const named = versionOf(asked.model, ports.policy)
  const replaced = named === undefined && context.anyModel === true
  const [request, version] = replaced ? [{ ...asked, model: ports.policy }, null] : [asked, named]
  if (version === undefined)
    throw new InstarError(
      'model_not_found',
      `There is no model ${JSON.stringify(request.model?.slice(0, 100))} here; use ${JSON.stringify(ports.policy)} or ${JSON.stringify(`${ports.policy}@N`)}.`,
      { field: 'model' },
    )
  span?.asked(dialect.name, request.model ?? ports.policy, request)
  ports.capture.admit()
  const lease = await enter(version)
  return { ...context, sent, request, lease, raw }
}

/**
 * The bytes of a body with its references resolved, which are held. A number like 1e20 takes more of them than it did as it
 * came. Throws `body_too_large`, and as `hold`.
 */
const written = (body: Fields, limit: number, hold: (bytes: number) => void): Uint8Array => {
  const text = JSON.stringify(body)
  const bytes = Buffer.byteLength(text)
  if (bytes > limit) throw largerWithItems(limit)
  hold(bytes)
  return Buffer.from(text)
}

/** Resolves session, prompt and constraint, and starts to append the body's blob. */
const admitTurn = async (ports: AnswerPorts, received: Received): Promise<Prompted> => {
  const { before, controller, dialect, request, at } = received
  const admission = await before(admit(ports, { ...received, gone: controller.signal }))
  if (ports.engine.capabilities().logprobs)
    checkAnswerLogprobs(request, samplingOf(request, ports.model, admission.prompt.length).maxTokens)
  const asking = { key: received.key, gone: controller.signal }
  const checking = constrained(ports, asking, dialect, request, admission.insideReasoning)
  const constraint = checking && (await before(checking))
  const stored = admission.blob === null ? Promise.resolve() : ports.capture.blob(admission.blob, at)
  // Each candidate awaits `stored`. This handler avoids an unhandled rejection before that.
  stored.catch(() => undefined)
  return { ...received, admission, constraint, stored }
}

/** Creates turn ids, one task per candidate, and the response headers. */
const prepare = (ports: AnswerPorts, prompted: Prompted): Prepared => {
  const { admission, request, lease, at, raw } = prompted
  const { session } = admission.facts
  const turns = Array.from({ length: request.n }, () => turnId(session, hex(ports.random(16))))
  for (const turn of turns) ports.reader.cacheBody(turn, raw)
  observe(ports, prompted, turns)
  const sampling = samplingOf(request, ports.model, admission.prompt.length)
  return {
    ...prompted,
    tasks: tasksOf(ports, prompted, { turns, sampling }),
    answerContext: {
      turn: turns[0]!,
      session,
      at,
      model: request.model ?? ports.policy,
      fingerprint: `instar-${ports.policy}@${lease.version}`,
      sampling,
      textOf: (id) => ports.model.decode([id]),
      get promptTokens() {
        return promptTokens(ports.model, request, admission.prompt)
      },
    },
    replyHeaders: {
      'x-instar-version': String(lease.version),
      'x-instar-turn-id': turns[0]!,
      'x-instar-session-id': session,
      ...(turns.length > 1 ? { 'x-instar-turn-ids': turns.join(',') } : {}),
      ...(request.ignored.length > 0 ? { 'x-instar-ignored': headerText(request.ignored.join(',')) } : {}),
      ...(request.dropped.length > 0 ? { 'x-instar-dropped-tools': headerText(request.dropped.join(',')) } : {}),
    },
  }
}

/** Records the request for `instar doctor agent` and for traces. */
const observe = (ports: AnswerPorts, prompted: Prompted, turns: readonly string[]): void => {
  const { admission, request, lease, span, dialect, at, headers, sent } = prompted
  const { session, kind, labelSource, userTurn, offPrefix } = admission.facts
  ports.recentRequests.add({
    at,
    dialect: dialect.name,
    client: clientOf(headers),
    carried: carriedBy(headers, sent),
    session,
    labelSource,
    userTurn,
    kind,
    turn: turns[0]!,
    messages: request.messages.length,
    tools: request.tools.length,
    offPrefix,
  })
  span?.admitted({
    session,
    turns,
    kind,
    labelSource,
    version: lease.version,
    model: `${ports.policy}@${lease.version}`,
    promptTokens: admission.prompt.length,
  })
}

const tasksOf = (
  ports: AnswerPorts,
  prompted: Prompted,
  { turns, sampling }: { turns: readonly string[]; sampling: Omit<RecordedSampling, 'seed'> },
): Task[] => {
  const { admission, request, lease, constraint, dialect } = prompted
  const seeds = seedsOf(request, ports.random)
  const mayLearn = {
    optedOut: !prompted.mayTrain || optedOut(prompted.headers),
    learning: ports.learning,
    contaminated: admission.contaminated,
  }
  const reason = whyNotTrainable({
    ...admission.facts,
    ...mayLearn,
    constrained: constraint !== null,
    reweighted: request.reweighting !== null,
    temperature: sampling.temperature,
    text: 'any',
  })
  // An episode is compared with others of its task; no outcome covers candidates in the background.
  const learnable = prompted.prompt === undefined && (admission.facts.task ?? null) === null && reason === null
  const candidates = request.n === 1 && learnable ? ports.background.wanted() : request.n
  return turns.map((turn, candidate) => ({
    admitted: { ...admission.facts, candidates, version: lease.version, adapter: lease.adapter },
    candidate: { turn, candidate, sampling: { ...sampling, seed: seeds[candidate]! } },
    prompt: admission.prompt,
    callPrefix: dialect.callPrefix,
    chat: ports.engine.capabilities().chat ? chatOf(dialect, request) : null,
    constraint,
    reweighting: request.reweighting,
    topLogprobs: request.logprobs ? request.topLogprobs : 0,
    parser: {
      tools: request.tools.length > 0 && request.mayCall,
      reasoning: admission.insideReasoning,
      oneCall: request.functions,
    },
    parent: candidate === 0 ? admission.parent : null,
    ...mayLearn,
    stored: prompted.stored,
    sink: null,
    shown: true,
    signal: prompted.controller.signal,
    span: prompted.span,
    hold: prompted.hold,
  }))
}

const samplingOf = (request: Request, model: Model, promptTokens: number): Omit<RecordedSampling, 'seed'> => ({
  temperature: request.temperature ?? model.defaults.temperature,
  topP: request.topP ?? model.defaults.topP,
  topK: Math.max(0, request.topK ?? model.defaults.topK),
  maxTokens: Math.min(request.maxTokens ?? Infinity, model.contextLength - promptTokens),
  stop: [...request.stop],
})
