/**
 * `/submit_steps` of Claw-R1: steps that a client built from completions of tokens. A step becomes a turn by the rules
 * of an import. Its tokens are exact if they are confirmed. Only sampled steps are trainable unless `trainUnsampled` is
 * set.
 */
import type { Hold } from '@instar/engine/port'
import { InstarError, type SessionState } from '@instar/events'
import { fieldsOf, parseJson, wrong, type Fields } from '@instar/dialects'
import { setImmediate as nextPass } from 'node:timers/promises'
import type { AnswerReply } from '../generate/context.ts'
import type { ModelRequest } from '../generate/request.ts'
import type { Line } from '../import/core/exact.ts'
import { isStep, placeOf, readStep } from '../import/core/steps.ts'
import type { Reading, ImportedRequest } from '../import/core/imported-request.ts'
import { newSessionSoFar, turnOf, turnsOf, type SessionSoFar } from '../import/core/turns.ts'
import { servedVersion } from '../versions/core/pool-plan.ts'
import { sessionState } from '../session/core/session-index.ts'
import { closeSession } from '../session/closing.ts'
import { confirm } from './confirmation.ts'
import { SharedMemory } from './core/remembered.ts'
import type { CompatPorts } from './ports.ts'
import { json, type CompatCall } from './route.ts'
import type { TokenCompletions } from './token-completions.ts'

/** Of all keys. */
const MOST_TRAJECTORIES = { most: 256, mostBytes: 64 * 1024 * 1024 }

/** `at`: the step's index in the body; `place`: its index in its trajectory. */
type Step = { at: number; place: number; imported: ImportedRequest }
type Told = {
  at: number
  turn_id: string
  tokens: string
  trainable: boolean
  reason: string | null
  repeated: boolean
}

/**
 * The steps are recorded one by one. A request that ends early leaves the steps before it on the log, and may be sent
 * again.
 */
export const createSteps = (
  ports: CompatPorts,
  completions: TokenCompletions,
): ((call: CompatCall) => Promise<AnswerReply>) => {
  const { model, capture, index, policy, now } = ports
  const trajectories = new SharedMemory<SessionSoFar>(MOST_TRAJECTORIES)
  const line: Line = {
    versions: { get: (version) => servedVersion(ports.line(), version)?.adapter },
    vocabulary: model.vocabulary,
  }

  /** Other requests are served between two steps. */
  const readSteps = async (steps: readonly unknown[], reading: Reading, signal: AbortSignal): Promise<Step[]> => {
    const read: Step[] = []
    for (const [at, step] of steps.entries()) {
      await nextPass()
      signal.throwIfAborted()
      const fields = fieldsOf(step, `steps[${at}]`)
      if (!isStep(fields)) throw wrong(`steps[${at}]`, 'a step: prompt_ids, response_ids, …')
      checkLength(fields, model.contextLength, `steps[${at}]`)
      read.push({ at, place: placeOf(fields), imported: readStep(withoutBlanks(fields), reading) })
    }
    return read.toSorted((a, b) => a.place - b.place)
  }

  const record = async (
    { at, imported }: Step,
    { reading, learned, request }: { reading: Reading; learned: boolean; request: ModelRequest & { hold: Hold } },
  ): Promise<Told[]> => {
    const ready = ports.tail.ready(imported.session)
    if (ready) await request.before(ready)
    const so = trajectories.get(imported.session) ?? beginning(sessionState(index, imported.session))
    const there = imported.answers.every((said) => index.fold.turns.has(turnOf(imported, said)))
    const confirmed = there ? null : await confirm(ports, completions, request, imported)
    request.controller.signal.throwIfAborted()
    const known = so.recent.map(({ turn }) => turn)
    const { made, blob } = turnsOf(
      { ...imported, ...confirmed, optedOut: imported.optedOut || !learned },
      so,
      line,
      reading,
      (turn) => index.fold.turns.has(turn) || known.includes(turn),
      now(),
    )
    trajectories.set(reading.key, imported.session, so, bytesOf(so))
    const told: Told[] = []
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
    if (imported.last) await closeSession(ports, { label: imported.session, key: reading.key })
    return told
  }

  return (call) => {
    const steps = parseJson(call.body)['steps']
    if (!Array.isArray(steps)) throw wrong('steps', 'a list of steps')
    const learned = call.query['channel'] !== 'val' && (call.key?.scopes.includes('train') ?? true)
    const reading: Reading = {
      policy,
      key: call.key?.id ?? null,
      ownVersions: false,
      unsampled: ports.trainUnsampled,
      rewards: null,
      decode: (ids) => model.decode(ids),
    }
    return ports.requesting(call, async (request) => {
      capture.admit()
      // Every step is read before the first record is written.
      const read = await readSteps(steps, reading, request.controller.signal)
      await request.before(ports.tail.turnsWithin(ports.tailWaitMs))
      const told: Told[] = []
      for (const step of read)
        told.push(...(await record(step, { reading, learned, request: { ...request, hold: call.hold } })))
      return json({
        accepted: steps.length,
        turns: told.toSorted((a, b) => a.at - b.at).map(({ at: _, ...turn }) => turn),
      })
    })
  }
}

/** A longer step cannot be of this model. Throws `context_length_exceeded`. */
const checkLength = (step: Fields, contextLength: number, field: string): void => {
  const tokens = ['prompt_ids', 'response_ids'].reduce(
    (sum, name) => sum + (Array.isArray(step[name]) ? step[name].length : 0),
    0,
  )
  if (tokens > contextLength)
    throw new InstarError(
      'context_length_exceeded',
      `${field} has ${tokens} tokens, the model's context ${contextLength}.`,
      { field },
    )
}

/** Earlier steps may have gone to another gateway or come before a restart. They are found by their answers. */
const beginning = (session: SessionState | undefined): SessionSoFar => ({
  ...newSessionSoFar(),
  hadTools: session ? false : null,
})

/** Bytes of the bodies and ids of a session; an id takes 8. */
const bytesOf = ({ recent }: SessionSoFar): number =>
  recent.reduce(
    (sum, { body, ids, recordedIds }) => sum + body.length + 8 * (ids.length + (recordedIds?.length ?? 0)),
    0,
  )

/** Removes empty uids, which Claw-R1 sends for absent ones. */
const withoutBlanks = (step: Fields): Fields =>
  Object.fromEntries(
    Object.entries(step).filter(
      ([name, value]) => !((name === 'trajectory_uid' || name === 'prompt_uid') && value === ''),
    ),
  )
