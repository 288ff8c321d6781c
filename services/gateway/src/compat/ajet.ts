/**
 * The episode endpoints of AgentJet's swarm server. An episode is a session; its end is feedback. docs/compatibility.md
 */
import { InstarError } from '@instar/events'
import { fieldsOf, isFields, number, parseJson, text, wrong, type Fields } from '@instar/dialects'
import {
  claim,
  ended,
  initialEpisodes,
  mayContinue,
  nameIn,
  running,
  touchEpisode,
  type Episode,
} from './core/episodes.ts'
import { sessionOfLabel } from '../session/core/labels.ts'
import { taskIn } from '../session/core/task.ts'
import { hex } from '../generate/random.ts'
import { closeSession } from '../session/closing.ts'
import { noEquivalent } from './claw.ts'
import type { CompatPorts } from './ports.ts'
import { answered, endEpisode, rewardTurn, sessionAt } from './rewarding.ts'
import { json, type CompatCall, type CompatRoute } from './route.ts'
import { completeInSession } from './session-completion.ts'
import type { PendingTurnsReader } from './pending-turns.ts'

/** Endpoints for AgentJet's own trainer: they start, stop or configure training. */
const TRAINER = [
  '/update_engine_status',
  '/sync_train_config',
  '/sync_train_code',
  '/start_engine',
  '/stop_engine',
  '/register_episode',
  '/is_episode_claimed',
  '/update_current_batch_rollout_pool_information',
  '/update_current_batch_rollout_pool_information_and_fetch_instruction',
  '/push_verbose_log',
  '/replay_latest_llm_call',
]

const ROLLING = 'ENGINE.ROLLING'

export const agentJetRoutes = (ports: CompatPorts, pendingTurns: PendingTurnsReader): CompatRoute[] => {
  const { now } = ports
  const episodes = initialEpisodes()
  const keyOf = (call: CompatCall): string | null => call.key?.id ?? null

  /** An episode that this gateway does not know was claimed at another gateway or before a restart. */
  const found = (call: CompatCall, body: Fields): { uuid: string; episode: Episode | undefined } => {
    const uuid = text(body, 'episode_uuid')
    const client = nameIn(body, 'client_uuid')
    if (uuid === null || client === null) throw wrong(uuid === null ? 'episode_uuid' : 'client_uuid', 'a text')
    const episode = episodes.byId.get(uuid)
    if (episode && (episode.key !== keyOf(call) || episode.client !== client))
      throw new InstarError('unknown_turn', 'The episode was claimed by another client.', { field: 'client_uuid' })
    return { uuid, episode }
  }

  const urlOf = (origin: string, { type, uuid }: Pick<Episode, 'type' | 'uuid'>): string =>
    `${origin}/episode/${type}/${uuid}/v1`

  const status = () => ({
    engine_status: ports.unready() === null ? ROLLING : 'ENGINE.BOOTING',
    engine_status_detail: ports.unready()?.status ?? null,
    global_step: ports.line().head,
  })

  const end = async (call: CompatCall, outcome: 'ended' | 'aborted'): Promise<ReturnType<typeof json>> => {
    const body = parseJson(call.body)
    const { uuid, episode } = found(call, body)
    const key = keyOf(call)
    const task = taskIn(body, 'task_id') ?? ''
    const output = fieldsOf(body['workflow_output'] ?? {}, 'workflow_output')
    const named = isFields(output['metadata']) ? output['metadata']['task_id'] : undefined
    if (outcome === 'ended' && named !== undefined && named !== task)
      throw wrong(
        'workflow_output.metadata.task_id',
        `the task_id of the request, ${JSON.stringify(task.slice(0, 80))}`,
      )
    const session = await sessionAt(ports, key, uuid)
    if (!episode && !session)
      throw new InstarError('unknown_turn', 'There is no such episode.', { field: 'episode_uuid' })
    if (outcome === 'ended') {
      const turns = answered(session)
      const reward = rewardOf(output['reward'], turns.length)
      if (Array.isArray(reward))
        for (const [i, turn] of turns.entries())
          await rewardTurn(ports, turn, { key, source: 'episode', value: reward[i]! })
      const value = Array.isArray(reward) ? null : reward
      const ending = { key, source: 'episode', value, task: task === '' ? null : task }
      if (session) await endEpisode(ports, session, turns, ending)
    } else if (session) await closeSession(ports, { label: session.session, key, discarded: true })
    if (episode?.outcome === 'running') Object.assign(episode, { outcome, task: task === '' ? episode.task : task })
    return json({ success: true })
  }

  const poolInformation = async (call: CompatCall): Promise<ReturnType<typeof json>> => {
    const key = keyOf(call)
    const line = await pendingTurns.read()
    const waiting = ended(episodes, key).filter(({ uuid }) => !line.spent(sessionOfLabel(key, uuid)))
    const byTask = Map.groupBy(waiting, ({ task }) => task)
    const alive = running(episodes, key, now())
    return json({
      // One sample is one turn. The next batch is sealed when as many turns are scored as the last batch had.
      sample_collection_method: 'rollout_until_finish_enough_episodes',
      completed_episodes: line.waiting,
      completed_episode_target: line.batch,
      completed_tasks: byTask.size,
      completed_task_target: 0,
      completed_non_dummy_tasks: 0,
      completed_non_dummy_task_target: 0,
      task_expected_num_repeat: 0,
      completed_tasks_details: Object.fromEntries(
        [...byTask].map(([task, all]) => [task, all.map(({ uuid }) => uuid)]),
      ),
      completed_tasks_client_uuids: Object.fromEntries(
        [...byTask].map(([task, all]) => [task, all.map(({ client }) => client)]),
      ),
      running_episode_details: Object.fromEntries(
        alive.map(({ uuid, client, task, lastAt }) => [
          uuid,
          {
            episode_status: 'claimed',
            time_since_last_activity: ((now() - lastAt) / 1000).toFixed(1),
            client_uuid: client,
            optional_task_id: task,
          },
        ]),
      ),
      ...status(),
      booting_start_time: null,
    })
  }

  const buffer = (call: CompatCall) =>
    json({
      buffer: running(episodes, keyOf(call), now()).map((episode) => ({
        episode_uuid: episode.uuid,
        episode_status: 'claimed',
        episode_type: episode.type,
        openai_base_url: urlOf(call.origin, episode),
        openai_api_key: '',
        client_uuid: episode.client,
        zmq_listen_result_addr: '',
        latest_activity_timestamp: episode.lastAt / 1000,
        discard_episode_timeout: episode.idleMs / 1000,
        llm_call_count: episode.calls,
        debug_log: [],
        optional_task_id: episode.task,
      })),
    })

  const claimOne = (call: CompatCall) => {
    const body = parseJson(call.body)
    const client = nameIn(body, 'client_uuid')
    const type = text(body, 'episode_type') ?? 'train'
    if (client === null) throw wrong('client_uuid', 'a text')
    if (type !== 'train' && type !== 'eval') throw wrong('episode_type', 'train or eval')
    const policy = isFields(body['throttle_policy']) ? body['throttle_policy'] : {}
    const why = ports.unready()
    const uuid = hex(ports.random(16))
    if (why !== null)
      return json({
        success: false,
        client_uuid: client,
        episode_uuid: '',
        openai_base_url: '',
        openai_api_key: '',
        fail_cause: `No available episodes to claim. (${why.status})`,
      })
    const idleMs = 1000 * (number(body, 'discard_episode_timeout', 0, 1e9) ?? 240)
    const episode: Episode = {
      uuid,
      client,
      key: keyOf(call),
      type,
      task: taskIn(policy, 'current_task_id') ?? '',
      idleMs,
      claimedAt: now(),
      lastAt: now(),
      calls: 0,
      outcome: 'running',
    }
    claim(episodes, episode)
    return json({
      success: true,
      client_uuid: client,
      episode_uuid: uuid,
      openai_base_url: urlOf(call.origin, episode),
      openai_api_key: tokenFor(call, uuid),
      fail_cause: '',
    })
  }

  const speak = (dialect: keyof CompatPorts['dialects']) => (call: CompatCall) => {
    const uuid = call.params['episode']!
    const task = touchEpisode(episodes, { uuid, key: keyOf(call) }, now())?.task ?? ''
    return completeInSession(ports, call, { session: uuid, dialect, task, learned: call.params['type'] !== 'eval' })
  }

  const own = '/episode/:type/:episode/v1'
  const route = (
    method: 'GET' | 'POST',
    url: string,
    scope: CompatRoute['scope'],
    handle: (call: CompatCall) => ReturnType<typeof json> | Promise<ReturnType<typeof json>>,
  ): CompatRoute => ({ method, url, scope, handle: async (call) => handle(call) })
  return [
    route('GET', '/health', 'inference', () => json({ status: 'ok' })),
    route('GET', '/get_engine_status', 'inference', () => json(status())),
    route('POST', '/claim_episode', 'steps', claimOne),
    route('POST', '/end_episode', 'steps', (call) => end(call, 'ended')),
    route('POST', '/abort_episode', 'steps', (call) => end(call, 'aborted')),
    route('POST', '/can_continue_episode', 'steps', (call) => {
      const body = parseJson(call.body)
      const { episode } = found(call, body)
      return json({ can_continue: mayContinue(episode, text(body, 'client_uuid') ?? '', now()) })
    }),
    route('POST', '/get_episode_buffer', 'steps', buffer),
    route('GET', '/get_current_batch_rollout_pool_information', 'inference', poolInformation),
    // A client repeats this request until it succeeds. There is no vote, so it always succeeds.
    route('POST', '/agree_sync_weight', 'inference', () => json({ success: true, failure_reason: '' })),
    { method: 'POST', url: `${own}/chat/completions`, scope: 'steps', handle: speak('chat') },
    { method: 'POST', url: `${own}/responses`, scope: 'steps', handle: speak('responses') },
    { method: 'POST', url: `${own}/messages`, scope: 'steps', handle: speak('messages') },
    ...TRAINER.map((url): CompatRoute => ({ method: 'POST', url, scope: 'inference', handle: noEquivalent(url) })),
    {
      method: 'GET',
      url: '/get_server_experiment_dir',
      scope: 'inference',
      handle: noEquivalent('/get_server_experiment_dir'),
    },
  ]
}

/** The outcome of the episode, or one reward per turn. Null: no reward. Throws `bad_request`. */
const rewardOf = (reward: unknown, turns: number): number | number[] | null => {
  if (reward === undefined || reward === null) return null
  if (!Array.isArray(reward)) {
    if (!isReward(reward)) throw wrong('workflow_output.reward', 'a number from -1 to 1')
    return reward
  }
  if (reward.length !== turns)
    throw wrong('workflow_output.reward', `one number, or as many as the episode has answers: ${turns}`)
  if (!reward.every(isReward)) throw wrong('workflow_output.reward', 'numbers from -1 to 1')
  return reward
}

const isReward = (value: unknown): value is number => typeof value === 'number' && value >= -1 && value <= 1

/** With API keys, the token that claimed the episode. Without, a token in AgentJet's format that grants nothing. */
const tokenFor = (call: CompatCall, uuid: string): string => {
  const given = /^Bearer\s+(.+)$/i.exec(String(call.headers['authorization'] ?? ''))?.[1]
  if (call.key !== null) return given ?? String(call.headers['x-api-key'] ?? '')
  return `sk-ajet-${Buffer.from(JSON.stringify({ agent_name: '', target_tag: '', episode_uuid: uuid, episode_address: '' })).toString('base64')}`
}
