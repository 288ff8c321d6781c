/**
 * The endpoints of Claw-R1's gateway. A trajectory is a session; its uid is the session's label. docs/compatibility.md
 */
import { InstarError } from '@instar/events'
import { isFields, number, parseJson, text, wrong, type Fields } from '@instar/dialects'
import { hex } from '../generate/random.ts'
import { Untrained } from './core/untrained.ts'
import type { CompatPorts } from './ports.ts'
import { answered, endEpisode, sessionAt } from './rewarding.ts'
import { json, type CompatCall, type CompatRoute } from './route.ts'
import { completeInSession } from './session-completion.ts'
import { MAX_TASK_LENGTH } from '../session/core/task.ts'
import { createSteps } from './steps.ts'
import { createTokenCompletions } from './token-completions.ts'

const OK = { status: 'ok' }
/** Claw-R1's trajectory uids are UUIDs with or without dashes. Other path segments are not trajectories. */
const UID = '^[0-9a-fA-F-]{16,64}$'
const IS_UID = new RegExp(UID)

export const clawRoutes = (ports: CompatPorts): CompatRoute[] => {
  const completions = createTokenCompletions(ports)
  const submit = createSteps(ports, completions)
  /** Trajectories whose channel is not `train`. */
  const untrained = new Untrained()

  const register = (call: CompatCall, trajectory: string): Promise<ReturnType<typeof json>> => {
    const channel = text(fieldsIn(call.body), 'channel') ?? 'train'
    const key = call.key?.id ?? null
    // A text of any length may be registered; only a uid can have turns.
    if (channel === 'train') untrained.delete(key, trajectory)
    else if (IS_UID.test(trajectory)) untrained.add(key, trajectory)
    return Promise.resolve(json(OK))
  }

  const complete = async (call: CompatCall, trajectory: string): Promise<ReturnType<typeof json>> => {
    const key = call.key?.id ?? null
    const reward = number(fieldsIn(call.body), 'reward', -1, 1)
    const session = await sessionAt(ports, key, trajectory)
    // A trajectory without turns is complete although it has no session on the log.
    if (session) {
      const last = answered(session).slice(-1)
      await endEpisode(ports, session, last, { key, source: 'trajectory', value: reward, task: null })
    }
    return json(OK)
  }

  const at = (call: CompatCall): string => call.params['trajectory']!
  const own = `/:trajectory(${UID})/:prompt/v1`
  return [
    {
      method: 'POST',
      url: '/init_trajectory',
      scope: 'inference',
      handle: ({ origin }) => {
        const uid = hex(ports.random(16))
        return Promise.resolve(json({ trajectory_uid: uid, base_url: `${origin}/${uid}/1/v1` }))
      },
    },
    {
      method: 'POST',
      url: `${own}/register_trajectory`,
      scope: 'inference',
      handle: (call) => register(call, at(call)),
    },
    {
      method: 'POST',
      url: '/register_trajectory',
      scope: 'inference',
      handle: (call) => {
        const trajectory = text(fieldsIn(call.body), 'trajectory_uid')
        if (trajectory === null) throw wrong('trajectory_uid', 'a text')
        return register(call, trajectory)
      },
    },
    {
      method: 'POST',
      url: `${own}/chat/completions`,
      scope: 'inference',
      handle: (call) =>
        completeInSession(ports, call, {
          session: at(call),
          prompt: call.params['prompt']!,
          // Claw-R1 gives every live trajectory the prompt 1.
          task: call.params['prompt'] === '1' ? '' : call.params['prompt']!.slice(0, MAX_TASK_LENGTH),
          dialect: 'chat',
          learned: !untrained.has(call.key?.id ?? null, at(call)),
        }),
    },
    {
      method: 'POST',
      url: `${own}/complete_trajectory`,
      scope: 'feedback',
      handle: (call) => complete(call, at(call)),
    },
    {
      method: 'POST',
      url: `${own}/trajectory/complete`,
      scope: 'feedback',
      handle: (call) => complete(call, at(call)),
    },
    {
      method: 'POST',
      url: '/complete_trajectory/:trajectory',
      scope: 'feedback',
      handle: (call) => complete(call, at(call)),
    },
    { method: 'POST', url: '/submit_steps', scope: 'steps', handle: async (call) => submit(call) },
    { method: 'POST', url: '/generate', scope: 'steps', handle: async (call) => completions.complete(call) },
    {
      method: 'GET',
      url: '/ready',
      scope: 'inference',
      handle: () => {
        const why = ports.unready()
        if (why !== null) throw new InstarError('engine_lost', `The gateway is not ready: ${why.status}.`)
        return Promise.resolve(json({ status: 'ready' }))
      },
    },
    ...['/compute_reward', '/api/curation', '/api/batch-preview'].map((url): CompatRoute => ({
      method: 'POST',
      url,
      scope: 'inference',
      handle: noEquivalent(url),
    })),
  ]
}

export const noEquivalent = (path: string) => (): Promise<never> => {
  throw new InstarError(
    'no_equivalent',
    `${path} has no meaning here; docs/compatibility.md says what takes its place.`,
  )
}

/** Parses a body that may be absent. */
const fieldsIn = (body: Uint8Array): Fields => {
  if (body.length === 0) return {}
  if (Buffer.from(body).toString('utf8').trim() === 'null') return {}
  const fields = parseJson(body)
  return isFields(fields) ? fields : {}
}
