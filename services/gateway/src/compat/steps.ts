/**
 * `/generate` and `/submit_steps` of Claw-R1: completions of token prompts, and steps that a client built from them. A
 * step becomes a turn by the rules of an import. Its tokens are exact if this gateway sampled them, or if the version
 * that it names reproduces its log-probs. Only sampled steps are trainable unless `trainUnsampled` is set.
 */
import { contentSha, InstarError, type RecordedSampling, type SessionState } from '@instar/events'
import { fieldsOf, integer, number, parseJson, wrong, type Fields } from '@instar/dialects'
import type { Line } from '../import/core/exact.ts'
import { isStep, placeOf, readStep } from '../import/core/steps.ts'
import { idsOf, type Claim, type Reading, type ImportedRequest } from '../import/core/imported-request.ts'
import { newSessionSoFar, turnOf, turnsOf, type SessionSoFar } from '../import/core/turns.ts'
import { servedVersion } from '../versions/core/pool-plan.ts'
import { sessionState } from '../session/core/session-index.ts'
import { closeSession } from '../session/closing.ts'
import type { CompatPorts } from './ports.ts'
import { json, type CompatCall } from './route.ts'
import type { AnswerReply } from '../generate/context.ts'

type Sampled = { version: number; adapter: string | null; logprobs: number[]; sampling: RecordedSampling }

/** Number of remembered generations. */
const MOST = 4096
const MOST_TRAJECTORIES = 256
/** Tolerance of the mean log-prob of an answer, in nats. Engines differ by less; other weights differ by far more. */
const AGREE = 0.05

export type Steps = {
  generate(call: CompatCall): Promise<AnswerReply>
  submit(call: CompatCall): Promise<AnswerReply>
}

export const createSteps = (ports: CompatPorts): Steps => {
  const { engine, model, pool, capture, index, policy, now } = ports
  const generations = new Map<string, Sampled>()
  const trajectories = new Map<string, SessionSoFar>()
  const nameOf = (prompt: readonly number[], ids: readonly number[]): string =>
    contentSha(Buffer.from(JSON.stringify([prompt, ids])))

  const generate = async (call: CompatCall): Promise<AnswerReply> => {
    const body = parseJson(call.body)
    const prompt = idsOf(body['prompt_ids'], 'prompt_ids') ?? []
    if (prompt.length === 0 || prompt.some((id) => id >= model.vocabulary))
      throw wrong('prompt_ids', "a list of at least one id of the model's")
    if (prompt.length >= model.contextLength)
      throw new InstarError(
        'context_length_exceeded',
        `The prompt has ${prompt.length} tokens, the model's context ${model.contextLength}.`,
        { field: 'prompt_ids' },
      )
    for (const field of ['image_data', 'video_data'])
      if (Array.isArray(body[field]) && body[field].length > 0) throw wrong(field, 'absent: this model takes text only')
    const { tokenExact, chat } = engine.capabilities()
    if (!tokenExact || chat === true) throw new InstarError('not_available', 'This engine takes messages, not tokens.')
    const sampling = samplingOf(fieldsOf(body['sampling_params'] ?? {}, 'sampling_params'), ports, prompt.length)
    const lease = await pool.lease(null)
    try {
      const ids: number[] = []
      const logprobs: number[] = []
      const gone = new AbortController()
      call.response().once('close', () => gone.abort())
      let reason: string | null = null
      for await (const piece of engine.generate(
        { prompt, sampling, adapter: lease.adapter, topLogprobs: 0 },
        gone.signal,
      )) {
        if (piece.type === 'tokens')
          for (const token of piece.tokens) {
            ids.push(token.id)
            logprobs.push(token.logprob)
          }
        else if (piece.type === 'end') reason = piece.reason
      }
      remember(
        generations,
        nameOf(prompt, ids),
        { version: lease.version, adapter: lease.adapter, logprobs, sampling },
        MOST,
      )
      return {
        headers: { 'x-instar-version': String(lease.version) },
        body: { token_ids: ids, log_probs: logprobs, stop_reason: reason, policy_version: lease.version },
      }
    } finally {
      lease.release()
    }
  }

  /**
   * Sampling parameters and version of a step that this gateway sampled, or whose log-probs the named version
   * reproduces.
   */
  const vouched = async (
    imported: ImportedRequest,
  ): Promise<Pick<ImportedRequest, 'claim' | 'sampling' | 'sampledHere'>> => {
    const [said] = imported.answers
    const { promptIds, claim, sampling } = imported
    if (!said?.ids || !said.logprobs || !promptIds || said.ids.length !== said.logprobs.length)
      return { claim, sampling }
    const sampled = generations.get(nameOf(promptIds, said.ids))
    if (sampled && gap(sampled.logprobs, said.logprobs) < 1e-4)
      return {
        claim: { version: sampled.version, adapter: sampled.adapter, ours: true },
        sampling: sampled.sampling,
        sampledHere: true,
      }
    if (
      !claim ||
      promptIds.length + said.ids.length > model.contextLength ||
      [...promptIds, ...said.ids].some((id) => id >= model.vocabulary)
    )
      return { claim, sampling }
    return {
      claim: { ...claim, ours: await wouldSay(claim, promptIds, said.ids, said.logprobs, sampling.temperature) },
      sampling,
    }
  }

  const wouldSay = async (
    { version }: Claim,
    prompt: readonly number[],
    completion: readonly number[],
    logprobs: readonly number[],
    temperature: number,
  ): Promise<boolean> => {
    try {
      const lease = await pool.lease(version)
      try {
        const scored = await engine.score({
          prompt,
          completion,
          adapter: lease.adapter,
          temperature: temperature === 0 ? 1 : temperature,
        })
        return scored.length === completion.length && gap([...scored], logprobs) < AGREE
      } finally {
        lease.release()
      }
    } catch (error) {
      // A version that is unknown or cannot be evaluated does not confirm a step.
      if (error instanceof InstarError) return false
      throw error
    }
  }

  const submit = async (call: CompatCall): Promise<AnswerReply> => {
    const steps = parseJson(call.body)['steps']
    if (!Array.isArray(steps)) throw wrong('steps', 'a list of steps')
    const learned = call.query['channel'] !== 'val' && (call.key?.scopes.includes('train') ?? true)
    const key = call.key?.id ?? null
    const reading: Reading = {
      policy,
      key,
      ownVersions: false,
      unsampled: ports.trainUnsampled,
      rewards: null,
      decode: (ids) => model.decode(ids),
    }
    // Every step is parsed before the first record is written.
    const read = steps
      .map((step: unknown, i): { at: number; place: number; imported: ImportedRequest } => {
        const fields = fieldsOf(step, `steps[${i}]`)
        if (!isStep(fields)) throw wrong(`steps[${i}]`, 'a step: prompt_ids, response_ids, …')
        return { at: i, place: placeOf(fields), imported: readStep(withoutBlanks(fields), reading) }
      })
      .toSorted((a, b) => a.place - b.place)
    await ports.tail.turnsWithin(ports.tailWaitMs)
    const told: {
      at: number
      turn_id: string
      tokens: string
      trainable: boolean
      reason: string | null
      repeated: boolean
    }[] = []
    for (const { at, imported } of read) {
      if (index.forgotten.has(imported.session)) await ports.tail.restore(imported.session)
      const so = trajectories.get(imported.session) ?? beginning(sessionState(index, imported.session))
      remember(trajectories, imported.session, so, MOST_TRAJECTORIES)
      const line: Line = {
        versions: { get: (version) => servedVersion(ports.line(), version)?.adapter },
        vocabulary: model.vocabulary,
      }
      const there = imported.answers.every((said) => index.fold.turns.has(turnOf(imported, said)))
      const sampled = there ? null : await vouched(imported)
      const known = so.recent.map(({ turn }) => turn)
      const { made, blob } = turnsOf(
        { ...imported, ...sampled, optedOut: imported.optedOut || !learned },
        so,
        line,
        reading,
        (turn) => index.fold.turns.has(turn) || known.includes(turn),
        now(),
      )
      for (const { turn, feedback, inexact } of made) {
        const repeated = index.fold.turns.has(turn.turn) || known.includes(turn.turn)
        if (!repeated) {
          if (blob) await capture.blob(blob, turn.at)
          await capture.write(turn)
        }
        const given = sessionState(index, turn.session)?.feedback
        for (const one of feedback) if (!repeated || given?.has(one.id) === false) await capture.write(one)
        const { tokens, trainable, reason } = there ? await ports.reader.record(turn.turn) : turn
        told.push({ at, turn_id: turn.turn, tokens, trainable, reason: reason ?? (there ? null : inexact), repeated })
      }
      if (imported.last) await closeSession(ports, { label: imported.session, key })
    }
    return json({
      accepted: steps.length,
      turns: told.toSorted((a, b) => a.at - b.at).map(({ at: _, ...turn }) => turn),
    })
  }

  return { generate, submit }
}

/** Earlier steps may have gone to another gateway or come before a restart. They are found by their answers. */
const beginning = (session: SessionState | undefined): SessionSoFar => ({
  ...newSessionSoFar(),
  hadTools: session ? false : null,
})

/** Removes empty uids, which Claw-R1 sends for absent ones. */
const withoutBlanks = (step: Fields): Fields =>
  Object.fromEntries(
    Object.entries(step).filter(
      ([name, value]) => !((name === 'trajectory_uid' || name === 'prompt_uid') && value === ''),
    ),
  )

/** Mean absolute difference of two lists of log-probs. */
const gap = (a: readonly number[], b: readonly number[]): number =>
  a.length !== b.length || a.length === 0
    ? Infinity
    : a.reduce((sum, one, i) => sum + Math.abs(one - b[i]!), 0) / a.length

const remember = <T>(map: Map<string, T>, name: string, value: T, most: number): void => {
  map.delete(name)
  map.set(name, value)
  if (map.size > most) map.delete(map.keys().next().value!)
}

const samplingOf = (params: Fields, { model, random }: CompatPorts, promptTokens: number): RecordedSampling => {
  const stop = params['stop']
  return {
    temperature: number(params, 'temperature', 0, 2) ?? 1,
    topP: number(params, 'top_p', 0, 1) ?? 1,
    topK: Math.max(0, integer(params, 'top_k', -1, 2 ** 31 - 1) ?? 0),
    seed: integer(params, 'seed', 0, 2 ** 31 - 1) ?? Buffer.from(random(4)).readUInt32LE() >>> 1,
    maxTokens: Math.min(
      integer(params, 'max_tokens', 1, Number.MAX_SAFE_INTEGER) ??
        integer(params, 'max_new_tokens', 1, Number.MAX_SAFE_INTEGER) ??
        Infinity,
      model.contextLength - promptTokens,
    ),
    stop: (Array.isArray(stop) ? stop : [stop]).filter((one): one is string => typeof one === 'string' && one !== ''),
  }
}
