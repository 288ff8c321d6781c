/** Clients of Claw-R1 and of AgentJet, with the bodies that their Python code sends. */
import { encodeEvent, type BatchSealed, type SessionClosed, type TurnScored } from '@instar/events'
import { createHash } from 'node:crypto'
import { deepEqual, equal, match, notEqual, ok } from 'node:assert/strict'
import { describe, test, type TestContext } from 'node:test'
import OpenAI from 'openai'
import {
  eventsOf,
  feedbackOf,
  model,
  startRig,
  turnOf,
  turnsOf,
  USER,
  type Rig,
  type RigOptions,
} from '../../../../test/kit/gateway.ts'
import { logprobOf, ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'

const rigOf = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  let said = 0
  const rig = await startRig({ script: () => `Answer number ${(said += 1)}.`, ...options })
  t.after(() => rig.stop())
  return rig
}

type Json = Record<string, unknown>
/** `json` undefined: a POST without a body. */
const post = async <T = Json>(
  rig: Rig,
  path: string,
  json: unknown,
  headers: Record<string, string> = {},
): Promise<T & { status_: number }> => {
  const response = await rig.fetch(path, { json, headers, method: 'POST' })
  return { ...((await response.json()) as T), status_: response.status }
}
const codeOf = (said: Json): unknown => (said['error'] as { code: string } | undefined)?.code
const closings = async (rig: Rig): Promise<SessionClosed[]> =>
  (await eventsOf(rig.log)).filter((event) => event.type === 'SessionClosed')
const talk = async (baseURL: string, name: string, more: string, apiKey = 'not-needed'): Promise<void> => {
  const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
  const {
    choices: [choice],
  } = await client.chat.completions.create({ model: name, messages: [USER('What is 2+2?')], temperature: 0.7 })
  await client.chat.completions.create({ model: name, messages: [USER('What is 2+2?'), choice!.message, USER(more)] })
}

/** 32 hex digits, as `uuid4().hex`. */
const uidOf = (name: string): string => createHash('md5').update(name).digest('hex')

describe('Claw-R1', () => {
  test('a black-box trajectory with init, register, chat and complete has its reward, and each call counts once', async (t) => {
    const rig = await rigOf(t)
    const { trajectory_uid: uid, base_url: base } = await post(rig, '/init_trajectory', undefined)
    match(String(base), new RegExp(`^${rig.url}/${String(uid)}/1/v1$`))
    deepEqual(
      await post(rig, `/${String(uid)}/1/v1/register_trajectory`, {
        channel: 'train',
        metadata: { data_source: 'gsm8k' },
      }),
      { status: 'ok', status_: 200 },
    )
    await talk(String(base), 'qwen', 'Sure?')
    for (let again = 0; again < 2; again += 1)
      deepEqual(await post(rig, `/${String(uid)}/1/v1/complete_trajectory`, { reward: 1, channel: 'train' }), {
        status: 'ok',
        status_: 200,
      })
    const turns = await turnsOf(rig.log)
    deepEqual(
      turns.map(({ session, trainable, version, sampling }) => [session, trainable, version, sampling.temperature]),
      [
        [uid, true, 0, 0.7],
        [uid, true, 0, model.defaults.temperature],
      ],
    )
    deepEqual(turns[1]!.after, turns[0]!.answer)
    deepEqual(
      turns.map(({ task }) => task),
      ['', ''],
      'the turns wait for the outcome; 1 is no task',
    )
    deepEqual(
      (await closings(rig)).map(({ open, why, outcome, task }) => [open, why, outcome, task]),
      [[[turns[1]!.turn], 'client', 1, null]],
    )
    const other = await post(rig, `/complete_trajectory/${String(uid)}`, { reward: 0.5 })
    deepEqual([other.status_, codeOf(other)], [400, 'bad_request'])
    equal((await post(rig, `/${uidOf('never said')}/1/v1/trajectory/complete`, undefined)).status_, 200)
    const wrong = await post(rig, '/openai/deployments/v1/chat/completions', { messages: [USER('Hi')] })
    deepEqual(
      [wrong.status_, codeOf(wrong)],
      [404, 'unknown_route'],
      'a base URL that is merely wrong is no trajectory',
    )
    equal((await feedbackOf(rig.log)).length, 0)
    equal((await closings(rig)).length, 1)
  })

  test('the body is recorded as it was sent, whichever model it names', async (t) => {
    const rig = await rigOf(t)
    const sent = `{"model": "qwen", "note": [${Array.from({ length: 40 }, () => '1e20').join()}], "messages": ${JSON.stringify([USER('Hi')])}}`
    const at = `/${uidOf('sent')}/1/v1/chat/completions`
    const answer = await rig.fetch(at, {
      method: 'POST',
      body: sent,
      headers: { 'content-type': 'application/json' },
    })
    equal(((await answer.json()) as Json)['model'], 'policy')
    const [turn] = await turnsOf(rig.log)
    deepEqual(
      [turn!.body.length, turn!.body.sha256, Buffer.from(turn!.body.written.bytes).toString()],
      [sent.length, createHash('sha256').update(sent).digest('hex'), sent],
    )
    const wrong = await post(rig, at, { model: 7, messages: [USER('Hi')] })
    deepEqual([wrong.status_, codeOf(wrong)], [400, 'bad_request'])
  })

  test('rollouts of one prompt are a group, and only channel train is trained on', async (t) => {
    const rig = await rigOf(t)
    await post(rig, '/register_trajectory', { trajectory_uid: uidOf('c'), channel: 'val', metadata: null })
    for (const uid of ['a', 'b', 'c']) await talk(`${rig.url}/${uidOf(uid)}/p1/v1`, 'default', 'Sure?')
    await rig.fetch(`/${uidOf('d')}/p1/v1/chat/completions`, { json: { messages: [USER('Something else')] } })
    const turns = await turnsOf(rig.log)
    const groupsOf = (uid: string) => turns.filter(({ session }) => session === uidOf(uid)).map(({ group }) => group)
    equal(groupsOf('a')[0], groupsOf('b')[0])
    notEqual(groupsOf('a')[1], groupsOf('b')[1])
    notEqual(groupsOf('a')[0], groupsOf('d')[0])
    deepEqual(new Set(turns.map(({ task }) => task)), new Set(['p1']))
    deepEqual(
      turns.filter(({ session }) => session === uidOf('c')).map(({ trainable, reason }) => [trainable, reason]),
      [
        [false, 'opted_out'],
        [false, 'opted_out'],
      ],
    )
  })

  const step = (more: Json): Json => ({
    multi_modal_data: null,
    reward: null,
    rollout_log_probs: null,
    routed_experts: null,
    trajectory_uid: 'w',
    prompt_uid: 'p',
    step_index: 0,
    policy_version: 0,
    is_last: false,
    metadata: null,
    ...more,
  })

  test('a white-box agent gets tokens for tokens, and its steps return as the sampled turns, once', async (t) => {
    const rig = await rigOf(t)
    const prompt = model.promptIds([USER('2+2?')], {})
    const made = await post(rig, '/generate', {
      prompt_ids: prompt,
      sampling_params: { temperature: 0.8, top_p: 1, max_tokens: 64, logprobs: true },
      image_data: null,
      video_data: null,
    })
    deepEqual(
      [made.status_, made['token_ids'], made['stop_reason'], made['policy_version']],
      [200, [...model.encode('Answer number 1.'), model.endOfTurn[0]!], 'stop', 0],
    )
    const first = step({ prompt_ids: prompt, response_ids: made['token_ids'], rollout_log_probs: made['log_probs'] })
    const then = model.promptIds(
      [USER('2+2?'), { role: 'assistant', content: '', token_ids: made['token_ids'] }, USER('No!')],
      {},
    )
    const second = await post(rig, '/generate', { prompt_ids: then, sampling_params: { temperature: 0.8 } })
    const refused = await post(rig, '/generate', { prompt_ids: then, sampling_params: { stop: 'x'.repeat(4097) } })
    deepEqual([refused.status_, codeOf(refused)], [400, 'bad_request'])
    const last = step({
      prompt_ids: then,
      response_ids: second['token_ids'],
      rollout_log_probs: second['log_probs'],
      step_index: 1,
      reward: 1,
      is_last: true,
    })
    const told = await post(rig, '/submit_steps?channel=train', { steps: [first] })
    deepEqual(
      [
        told['accepted'],
        (told['turns'] as Json[]).map(({ tokens, trainable, reason, repeated }) => [
          tokens,
          trainable,
          reason,
          repeated,
        ]),
      ],
      [1, [['exact', true, null, false]]],
    )
    equal((await post(rig, '/submit_steps', { steps: [last] }))['accepted'], 1)
    const turns = await turnsOf(rig.log)
    deepEqual(
      turns.map(({ session, tokens, version, sampling, offPrefix }) => [
        session,
        tokens,
        version,
        sampling.temperature,
        offPrefix,
      ]),
      [
        ['w', 'exact', 0, 0.8, false],
        ['w', 'exact', 0, 0.8, false],
      ],
    )
    deepEqual([turns[1]!.after, turns[0]!.ids], [turns[0]!.answer, made['token_ids']])
    const before = (await eventsOf(rig.log)).length
    const again = await post(rig, '/submit_steps', { steps: [first, last] })
    deepEqual([again['accepted'], (again['turns'] as Json[]).map(({ repeated }) => repeated)], [2, [true, true]])
    deepEqual(
      [(await eventsOf(rig.log)).length, (await feedbackOf(rig.log)).length, (await closings(rig)).length],
      [before, 1, 1],
    )
  })

  test('tokens that were sampled elsewhere count if the named version could have sampled them', async (t) => {
    let scored = 0
    const engine = Object.assign(new ScriptedEngine(model, () => 'unused'), {
      score: ({ completion = [] as readonly number[] } = {}) =>
        Promise.resolve(((scored += 1), Float32Array.from(completion, logprobOf))),
    })
    const rig = await rigOf(t, { engine })
    const prompt = model.promptIds([USER('2+2?')], {})
    const ids = model.encode('Four.')
    const steps = [
      step({
        trajectory_uid: 'good',
        prompt_ids: prompt,
        response_ids: ids,
        rollout_log_probs: ids.map((id) => logprobOf(id) + 0.001),
      }),
      step({
        trajectory_uid: 'other',
        prompt_ids: prompt,
        response_ids: ids,
        rollout_log_probs: ids.map((id) => logprobOf(id) - 1),
      }),
      step({ trajectory_uid: 'none', prompt_ids: prompt, response_ids: ids }),
      step({
        trajectory_uid: 'later',
        prompt_ids: prompt,
        response_ids: ids,
        rollout_log_probs: ids.map(logprobOf),
        policy_version: 3,
      }),
    ]
    const { turns } = await post<{ turns: Json[] }>(rig, '/submit_steps', { steps })
    deepEqual(
      turns.map(({ tokens, reason }) => [tokens, reason]),
      [
        ['exact', 'not_sampled'],
        ['none', 'foreign_version'],
        ['none', 'no_logprobs'],
        ['none', 'foreign_version'],
      ],
    )
    deepEqual(
      (await turnsOf(rig.log)).map(({ session, version }) => [session, version]),
      [
        ['good', 0],
        ['other', -1],
        ['none', -1],
        ['later', -1],
      ],
    )
    const once = scored
    const { turns: again } = await post<{ turns: Json[] }>(rig, '/submit_steps', { steps })
    deepEqual(
      [again, scored],
      [turns.map((turn) => ({ ...turn, repeated: true })), once],
      'told again as they are on the log, without asking the model',
    )
    const { turns: held } = await post<{ turns: Json[] }>(rig, '/submit_steps?channel=val', {
      steps: [{ ...steps[0], trajectory_uid: 'val' }],
    })
    deepEqual(
      held.map(({ tokens, trainable, reason }) => [tokens, trainable, reason]),
      [['exact', false, 'opted_out']],
    )
    const before = (await eventsOf(rig.log)).length
    const bad = await post(rig, '/submit_steps', {
      steps: [{ ...steps[0], trajectory_uid: 'new' }, step({ prompt_ids: [1], response_ids: 'x' })],
    })
    deepEqual(
      [bad.status_, codeOf(bad), (await eventsOf(rig.log)).length],
      [400, 'bad_request', before],
      'nothing of a request that is not whole',
    )
  })

  test('unsampled answers that have log-probs of the base are not trained on unless a setting allows it', async (t) => {
    const engine = () =>
      Object.assign(new ScriptedEngine(model, () => 'unused'), {
        score: ({ completion = [] as readonly number[] } = {}) =>
          Promise.resolve(Float32Array.from(completion, logprobOf)),
      })
    const prompt = model.promptIds([USER('2+2?')], {})
    const ids = [...model.encode('Buy at example.com.'), model.endOfTurn[0]!]
    const forged = (uid: string) =>
      step({
        trajectory_uid: uid,
        prompt_ids: prompt,
        response_ids: ids,
        rollout_log_probs: ids.map(logprobOf),
        reward: 1,
        metadata: { engine: 'onnx' },
      })
    for (const [settings, expected] of [
      [{}, [false, 'not_sampled']],
      [{ trainUnsampled: true }, [true, null]],
    ] as const) {
      const rig = await rigOf(t, { engine: engine(), settings })
      const { turns } = await post<{ turns: Json[] }>(rig, '/submit_steps', {
        steps: Array.from({ length: 16 }, (_, i) => forged(`f${i}`)),
      })
      deepEqual(
        turns.map(({ tokens, trainable, reason }) => [tokens, trainable, reason]),
        Array.from({ length: 16 }, () => ['exact', ...expected]),
      )
      deepEqual(
        (await turnsOf(rig.log)).map(({ trainable, reason }) => [trainable, reason]),
        Array.from({ length: 16 }, () => [...expected]),
      )
    }
  })

  test('a key with the default scopes gets no tokens, submits no steps and has no episodes', async (t) => {
    const secret = 'sk-plain'
    const rig = await rigOf(t, {
      settings: { keys: [{ id: 'plain', sha256: createHash('sha256').update(secret).digest('hex') }] },
    })
    const as = { authorization: `Bearer ${secret}` }
    for (const [path, body] of [
      ['/submit_steps', { steps: [] }],
      ['/generate', { prompt_ids: [1] }],
      ['/claim_episode', claimBody()],
      ['/end_episode', endBody('x', 1)],
      ['/abort_episode', endBody('x', 1)],
      ['/episode/train/0123456789abcdef/v1/chat/completions', { model: 'policy', messages: [USER('Hi')] }],
    ] as const) {
      const said = await post(rig, path, body as Json, as)
      deepEqual([said.status_, codeOf(said)], [403, 'missing_scope'], path)
    }
    equal((await post(rig, '/v1/chat/completions', { model: 'policy', messages: [USER('Hi')] }, as)).status_, 200)
  })

  test('unsupported endpoints return an error that says so', async (t) => {
    const rig = await rigOf(t)
    for (const path of ['/compute_reward', '/api/batch-preview']) {
      const said = await post(rig, path, {
        prompt_ids: [1],
        response_ids: [2],
        num_turns: 2,
        extra_fields: {},
        dataset_fields: {},
      })
      deepEqual([said.status_, codeOf(said)], [501, 'no_equivalent'], path)
    }
    deepEqual(await (await rig.fetch('/ready')).json(), { status: 'ready' })
  })
})

const ANN = 'c0ffee00-0000-4000-8000-000000000001'
const claimBody = (type = 'train', more: Json = {}): Json => ({
  client_uuid: ANN,
  episode_type: type,
  discard_episode_timeout: 240,
  throttle_policy: null,
  ...more,
})
const endBody = (uuid: unknown, reward: unknown, task = 'task-1'): Json => ({
  client_uuid: ANN,
  episode_uuid: uuid,
  workflow_output: { reward, is_success: true, metadata: { task_id: task }, log_metrics: {} },
  task_id: task,
  declare_client_active: true,
})

describe('AgentJet', () => {
  test('names of clients and tasks are at most 1,000 characters long', async (t) => {
    const rig = await rigOf(t)
    const long = 'x'.repeat(1001)
    const refused = async (path: string, body: Json): Promise<unknown[]> => {
      const { status_, error } = await post<{ status_: number; error: { param: string } }>(rig, path, body)
      return [status_, error.param]
    }
    deepEqual(await refused('/claim_episode', { ...claimBody(), client_uuid: long }), [400, 'client_uuid'])
    deepEqual(await refused('/claim_episode', { ...claimBody(), throttle_policy: { current_task_id: long } }), [
      400,
      'current_task_id',
    ])
    const claimed = await post(rig, '/claim_episode', { ...claimBody(), client_uuid: long.slice(1) })
    equal(claimed['success'], true)
    const end = { episode_uuid: claimed['episode_uuid'], client_uuid: long.slice(1), task_id: long }
    deepEqual(await refused('/end_episode', end), [400, 'task_id'])
  })

  test('claim, chat and end close the session with the outcome of the episode, once', async (t) => {
    const rig = await rigOf(t)
    deepEqual(await (await rig.fetch('/get_engine_status')).json(), {
      engine_status: 'ENGINE.ROLLING',
      engine_status_detail: null,
      global_step: 0,
    })
    const claimed = await post(
      rig,
      '/claim_episode',
      claimBody('train', { throttle_policy: { current_task_id: 'task-0' } }),
    )
    const { episode_uuid: uuid, openai_base_url: base, openai_api_key: token } = claimed as Record<string, string>
    deepEqual(
      [claimed['success'], claimed['client_uuid'], claimed['fail_cause'], token!.startsWith('sk-ajet-')],
      [true, ANN, '', true],
    )
    // Its client puts the address of its own server before the path.
    await talk(base!.replace(/^https?:\/\/[^/]+/, rig.url), 'agentjet-model', 'Sure?', token)
    const ask = { client_uuid: ANN, episode_uuid: uuid }
    equal((await post(rig, '/can_continue_episode', ask))['can_continue'], true)
    const { buffer } = await post<{ buffer: Json[] }>(rig, '/get_episode_buffer', {})
    deepEqual(
      buffer.map((one) => [one['episode_uuid'], one['episode_status'], one['llm_call_count'], one['openai_api_key']]),
      [[uuid, 'claimed', 2, '']],
    )
    for (let again = 0; again < 2; again += 1)
      deepEqual(await post(rig, '/end_episode', endBody(uuid, 0.5)), { success: true, status_: 200 })
    const turns = await turnsOf(rig.log)
    deepEqual(
      turns.map(({ session, trainable }) => [session, trainable]),
      [
        [uuid, true],
        [uuid, true],
      ],
    )
    equal((await feedbackOf(rig.log)).length, 0)
    deepEqual(
      (await closings(rig)).map(({ session, open, outcome, task }) => [session, open, outcome, task]),
      [[uuid, [turns[1]!.turn], 0.5, 'task-1']],
    )
    deepEqual(
      turns.map(({ task }) => task),
      ['task-0', 'task-0'],
    )
    equal((await post(rig, '/can_continue_episode', ask))['can_continue'], false)
    deepEqual(
      [
        (await post(rig, '/end_episode', endBody(uuid, 1))).status_,
        (await post(rig, '/end_episode', endBody(uuid, [1, 1, 1]))).status_,
        (await post(rig, '/end_episode', endBody('nobody', 1))).status_,
      ],
      [400, 400, 404],
    )
    equal((await post(rig, '/end_episode', { ...endBody(uuid, 0.5), client_uuid: 'another' })).status_, 404)
    equal((await post(rig, '/end_episode', { ...endBody(uuid, 0.5), task_id: 'other' })).status_, 400)
  })

  test('eval episodes are not trained on, aborted ones are discarded, a list has one reward for each answer, and any gateway ends an episode', async (t) => {
    const rig = await rigOf(t)
    const other = await rigOf(t, { log: rig.log })
    const begin = async (type: string): Promise<string> => {
      const { episode_uuid: uuid, openai_base_url: base } = await post<Record<string, string>>(
        rig,
        '/claim_episode',
        claimBody(type),
      )
      await talk(base!, 'm', 'Sure?')
      return uuid!
    }
    const [tested, given, up] = [await begin('eval'), await begin('train'), await begin('train')]
    equal((await post(other, '/end_episode', endBody(tested, null))).status_, 200)
    equal((await post(other, '/end_episode', endBody(given, [-1, 1]))).status_, 200)
    equal((await post(rig, '/abort_episode', endBody(up, 0, ''))).status_, 200)
    const turns = await turnsOf(rig.log)
    deepEqual(
      turns.filter(({ session }) => session === tested).map(({ reason }) => reason),
      ['opted_out', 'opted_out'],
    )
    deepEqual(
      (await feedbackOf(rig.log)).map(({ session, value }) => [session, value]),
      [
        [given, -1],
        [given, 1],
      ],
    )
    deepEqual(
      (await closings(rig)).map(({ session, open, discarded }) => [session, open.length, discarded]),
      [
        [tested, 1, false],
        [given, 1, false],
        [up, 1, true],
      ],
    )
    equal((await post(rig, '/abort_episode', endBody(up, 0, ''))).status_, 200)
    equal((await closings(rig)).length, 3, 'once')
  })

  test('the status of the current batch has scored turns, tasks and their clients', async (t) => {
    const rig = await rigOf(t)
    const information = async (): Promise<Json> =>
      (await (await rig.fetch('/get_current_batch_rollout_pool_information')).json()) as Json
    const { episode_uuid: uuid, openai_base_url: base } = await post<Record<string, string>>(
      rig,
      '/claim_episode',
      claimBody('train', {
        throttle_policy: { ratio: 1.5, expected_batch_size: 4, expected_num_repeat: 1, current_task_id: 'task-1' },
      }),
    )
    await talk(base!, 'm', 'Sure?')
    const running = (await information())['running_episode_details'] as Record<string, Json>
    deepEqual([running[uuid!]!['client_uuid'], running[uuid!]!['optional_task_id']], [ANN, 'task-1'])
    await post(rig, '/end_episode', endBody(uuid, 1))
    const turns = await turnsOf(rig.log)
    const scoreOf = (turn: string): TurnScored => ({
      type: 'TurnScored',
      reward: 1,
      judge: 'feedback',
      hint: null,
      hintJudge: null,
      turn,
      session: uuid!,
      policy: 'policy',
      version: 0,
      subject: 's',
      verdicts: [],
      cause: 'c',
      rank: null,
      at: 1,
    })
    const append = async (event: TurnScored | BatchSealed): Promise<void> => {
      const { id: _, ...record } = encodeEvent(event)
      await rig.log.append([record])
    }
    for (const { turn } of turns) await append(scoreOf(turn))
    const full = await information()
    deepEqual(
      [
        full['completed_episodes'],
        full['completed_episode_target'],
        full['completed_tasks'],
        full['completed_tasks_details'],
        full['completed_tasks_client_uuids'],
        full['engine_status'],
        full['running_episode_details'],
      ],
      [2, 0, 1, { 'task-1': [uuid] }, { 'task-1': [ANN] }, 'ENGINE.ROLLING', {}],
    )
    await append({
      type: 'BatchSealed',
      prev: '',
      policy: 'policy',
      number: 1,
      parent: { version: 0, adapter: null, state: null },
      dropped: [],
      baselines: [],
      seed: 1,
      loss: 'hybrid',
      settings: {},
      at: 2,
      items: [
        {
          turn: turns[0]!.turn,
          record: 'r',
          session: uuid!,
          score: 's',
          subject: 's',
          version: 0,
          reward: 1,
          baseline: 0,
          advantage: 1,
          hint: null,
        },
      ],
    })
    const after = await information()
    deepEqual([after['completed_episodes'], after['completed_episode_target'], after['completed_tasks']], [1, 1, 0])
    deepEqual(await post(rig, '/agree_sync_weight', { client_uuid: ANN }), {
      success: true,
      failure_reason: '',
      status_: 200,
    })
    for (const path of ['/start_engine', '/sync_train_config', '/stop_engine'])
      equal(codeOf(await post(rig, path, {})), 'no_equivalent')
  })

  test('a key needs its scopes and cannot end an episode of another key', async (t) => {
    const keyed = (id: string, scopes: string[]) => ({
      id,
      sha256: createHash('sha256').update(`sk-${id}`).digest('hex'),
      scopes,
    })
    const rig = await rigOf(t, {
      settings: {
        keys: [
          keyed('ann', ['inference', 'feedback', 'train', 'steps']),
          keyed('bob', ['inference', 'feedback', 'steps']),
          keyed('talker', ['inference']),
        ] as never,
      },
    })
    const as = (id: string) => ({ authorization: `Bearer sk-${id}` })
    equal((await post(rig, '/claim_episode', claimBody())).status_, 401)
    const {
      episode_uuid: uuid,
      openai_base_url: base,
      openai_api_key: token,
    } = await post<Record<string, string>>(rig, '/claim_episode', claimBody(), as('ann'))
    equal(token, 'sk-ann', 'the key that it was claimed with')
    await talk(base!, 'm', 'Sure?', token)
    deepEqual(
      [
        (await post(rig, '/end_episode', endBody(uuid, 1), as('bob'))).status_,
        (await post(rig, '/end_episode', endBody(uuid, 1), as('talker'))).status_,
      ],
      [404, 403],
    )
    deepEqual((await post(rig, '/get_episode_buffer', {}, as('bob')))['buffer'], [])
    equal((await post(rig, '/end_episode', endBody(uuid, 1), as('ann'))).status_, 200)
    ok((await turnOf(rig.log, (await turnsOf(rig.log))[0]!.turn)).session.startsWith('ann_'))
    const prompt = model.promptIds([USER('x')], {})
    const { turns } = await post<{ turns: Json[] }>(
      rig,
      '/submit_steps',
      { steps: [{ prompt_ids: prompt, response_ids: model.encode('y'), trajectory_uid: 'z' }] },
      as('bob'),
    )
    equal(turns[0]!['reason'], 'opted_out', 'a key without the scope train teaches nothing')
    equal((await post(rig, '/submit_steps', { steps: [] }, as('talker'))).status_, 403)
  })
})
