/** Random bodies that the routes accept, from which mutations start. */
import { type Dice, TEXTS } from './dice.ts'

type Json = Record<string, unknown>

/** Ids that a gateway returned earlier, by kind; `turn`, `session`, `episode`, `trajectory` among them. */
export type Ids = Readonly<Record<string, readonly string[]>>

export const idOf = (dice: Dice, ids: Ids, ...kinds: readonly string[]): string => {
  const known = kinds.flatMap((kind) => ids[kind] ?? [])
  const id =
    known.length === 0 || dice.chance(0.1)
      ? dice.pick([
          '',
          'x',
          'call_1',
          'resp_0123456789abcdef',
          `msg${'a'.repeat(24)}0`,
          `sealed${'7'.repeat(24)}z`,
          dice.hex(32),
          `${dice.hex(32)}.${dice.hex(32)}`,
          'a.b.c',
          '..',
        ])
      : dice.pick(known)
  if (dice.chance(0.75)) return id
  // One character is changed: a forged id of the right form.
  const at = dice.below(id.length + 1)
  return dice.pick([
    `${id.slice(0, at)}${dice.pick(['a', '7', '_', '-', '.', '\u0000'])}${id.slice(at + 1)}`,
    `_${id}-`,
    id.toUpperCase(),
    id.repeat(3),
    id.slice(0, at),
  ])
}

const said = (dice: Dice): string =>
  dice.chance(0.75)
    ? dice.pick(['Hi', 'Read the file.', 'No, wrong!', 'Thanks.', 'and then?', 'What is 2+2?'])
    : dice.pick(TEXTS)
const some = <T>(dice: Dice, most: number, make: () => T): T[] => Array.from({ length: dice.below(most + 1) }, make)
/** Each field is present with this probability. */
const maybe = (dice: Dice, fields: Json, probability = 0.25): Json =>
  Object.fromEntries(Object.entries(fields).filter(() => dice.chance(probability)))

const PARAMETERS = { type: 'object', properties: { path: { type: 'string' } } }
const sampling = (dice: Dice): Json =>
  maybe(dice, { temperature: dice.pick([0, 0.7, 2]), top_p: dice.pick([0.1, 1]), top_k: dice.pick([-1, 0, 40]) }, 0.15)
const modelName = (dice: Dice): Json => ({
  model: dice.pick([
    'policy',
    'policy',
    'policy',
    'policy',
    'policy',
    'policy',
    'policy@0',
    'policy@1',
    'policy@2',
    dice.pick(['policy@77', 'gpt-4', 'policy~x', 'policy@1e3', 'policy@-1', 'policy@ 1']),
  ]),
})
const labels = (dice: Dice, ids: Ids): Json =>
  maybe(
    dice,
    {
      user: dice.pick(['anna', ...TEXTS]),
      session_id: idOf(dice, ids, 'session'),
      prompt_cache_key: idOf(dice, ids, 'session'),
      metadata: {
        session_id: idOf(dice, ids, 'session'),
        user_id: dice.pick([
          'anna',
          `user_a_account__session_${'0'.repeat(8)}-1234-1234-1234-${'0'.repeat(12)}`,
          '{"session_id":"s","device_id":5}',
          '{"',
        ]),
      },
    },
    0.1,
  )

const chatExchange = (dice: Dice, ids: Ids): Json[] => {
  const id = idOf(dice, ids, 'call', 'toolu')
  return dice.pick<() => Json[]>([
    () => [
      { role: 'user', content: said(dice) },
      { role: 'assistant', content: said(dice) },
    ],
    () => [
      { role: 'user', content: said(dice) },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          {
            id,
            type: 'function',
            function: { name: 'read', arguments: dice.pick(['{"path":"a"}', '{"path": "a"}', '{', '']) },
          },
        ],
      },
      { role: 'tool', tool_call_id: id, content: said(dice) },
    ],
    () => [
      { role: 'user', content: [{ type: 'text', text: said(dice) }] },
      { role: 'assistant', content: [{ type: 'text', text: said(dice) }], reasoning_content: said(dice) },
    ],
  ])()
}

const chat = (dice: Dice, ids: Ids): Json => ({
  ...modelName(dice),
  messages: [
    ...(dice.chance(0.4) ? [{ role: dice.pick(['system', 'developer']), content: said(dice) }] : []),
    ...some(dice, 2, () => chatExchange(dice, ids)).flat(),
    { role: 'user', content: said(dice) },
  ],
  ...sampling(dice),
  ...labels(dice, ids),
  ...maybe(dice, { stream: true }, 0.5),
  ...maybe(dice, {
    stream_options: { include_usage: true },
    n: dice.pick([1, 2, 3]),
    seed: 7,
    max_tokens: dice.pick([1, 5, 100]),
    max_completion_tokens: dice.pick([2, 50]),
    stop: dice.pick<unknown>(['.', ['a', 'b']]),
    logprobs: true,
    top_logprobs: 2,
    tools: [{ type: 'function', function: { name: 'read', description: said(dice), parameters: PARAMETERS } }],
    tool_choice: dice.pick<unknown>(['none', 'auto', 'required', { type: 'function', function: { name: 'read' } }]),
    parallel_tool_calls: true,
    response_format: dice.pick<unknown>([
      { type: 'text' },
      { type: 'json_schema', json_schema: { name: 'a', schema: PARAMETERS } },
    ]),
    chat_template_kwargs: { enable_thinking: false },
    extra: { a: [1] },
  }),
})

const responseItem = (dice: Dice, ids: Ids): Json[] => {
  const call = idOf(dice, ids, 'call')
  return dice.pick<() => Json[]>([
    () => [
      { type: 'message', role: dice.pick(['user', 'developer']), content: [{ type: 'input_text', text: said(dice) }] },
    ],
    () => [{ role: 'user', content: said(dice) }],
    () => [
      {
        type: 'message',
        role: 'assistant',
        id: idOf(dice, ids, 'msg'),
        status: 'completed',
        content: [{ type: 'output_text', text: said(dice), annotations: [] }],
      },
    ],
    () => [
      {
        type: 'reasoning',
        id: idOf(dice, ids, 'rs'),
        summary: [{ type: 'summary_text', text: said(dice) }],
        encrypted_content: idOf(dice, ids, 'sealed'),
      },
      { type: 'function_call', id: idOf(dice, ids, 'fc'), call_id: call, name: 'read', arguments: '{"path":"a"}' },
      { type: 'function_call_output', call_id: call, output: said(dice) },
    ],
    () => [
      { type: 'custom_tool_call', id: idOf(dice, ids, 'ctc'), call_id: call, name: 'patch', input: said(dice) },
      { type: 'custom_tool_call_output', call_id: call, output: [{ type: 'input_text', text: said(dice) }] },
    ],
    () => [{ type: 'item_reference', id: idOf(dice, ids, 'msg', 'fc', 'rs', 'ctc') }],
    () => [{ id: idOf(dice, ids, 'msg', 'fc', 'call', 'turn') }],
    () => [{ type: 'web_search_call', id: 'ws', status: 'completed' }],
  ])()
}

const responses = (dice: Dice, ids: Ids): Json => ({
  ...modelName(dice),
  input: dice.chance(0.3)
    ? said(dice)
    : [...some(dice, 3, () => responseItem(dice, ids)).flat(), { role: 'user', content: said(dice) }],
  ...sampling(dice),
  ...labels(dice, ids),
  ...maybe(dice, { stream: true }, 0.5),
  ...maybe(dice, {
    previous_response_id: idOf(dice, ids, 'resp'),
    instructions: said(dice),
    store: false,
    max_output_tokens: dice.pick([1, 40]),
    include: ['reasoning.encrypted_content', 'message.output_text.logprobs'],
    top_logprobs: 2,
    safety_identifier: 'anna',
    client_metadata: { a: 'b' },
    tools: [
      { type: 'function', name: 'read', parameters: PARAMETERS },
      { type: 'custom', name: 'patch' },
      { type: 'namespace', name: 'files', tools: [{ type: 'function', name: 'write' }] },
      { type: dice.pick(['web_search', 'x-evil\r\na: b', 'größe', '\u0000']) },
    ],
  }),
})

const blocks = (dice: Dice, ids: Ids): Json[] => {
  const id = idOf(dice, ids, 'toolu', 'call')
  return [
    {
      role: 'user',
      content: dice.chance(0.5)
        ? said(dice)
        : [{ type: 'text', text: said(dice), cache_control: { type: 'ephemeral' } }],
    },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: said(dice), signature: idOf(dice, ids, 'sealed') },
        { type: 'text', text: said(dice) },
        { type: 'tool_use', id, name: 'Read', input: dice.pick<unknown>([{ path: 'a' }, {}, null, 5]) },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: id,
          is_error: true,
          content: dice.pick<unknown>([said(dice), [{ type: 'text', text: said(dice) }], null]),
        },
        { type: 'text', text: said(dice) },
      ],
    },
  ]
}

const messages = (dice: Dice, ids: Ids): Json => ({
  ...modelName(dice),
  max_tokens: dice.pick([1, 20, 300]),
  messages: [...some(dice, 2, () => blocks(dice, ids)).flat(), { role: 'user', content: said(dice) }],
  ...sampling(dice),
  ...labels(dice, ids),
  ...maybe(dice, { stream: true }, 0.5),
  ...maybe(dice, {
    system: dice.pick<unknown>([
      said(dice),
      [
        { type: 'text', text: 'x-anthropic-billing-header: 1' },
        { type: 'text', text: said(dice) },
      ],
    ]),
    stop_sequences: ['.', 'b'],
    thinking: { type: 'enabled', budget_tokens: 9 },
    context_management: {},
    output_config: { effort: 'low' },
    tools: [
      { name: 'Read', description: 'reads', input_schema: PARAMETERS },
      { type: 'web_search_20250305', name: 'web_search' },
    ],
    tool_choice: { type: dice.pick(['auto', 'none', 'any']) },
  }),
})

const tokens = (dice: Dice): number[] =>
  Array.from({ length: 1 + dice.below(12) }, () => dice.below(dice.chance(0.02) ? 5000 : 4000))
const step = (dice: Dice, ids: Ids): Json => {
  const said = tokens(dice)
  return {
    prompt_ids: tokens(dice),
    response_ids: said,
    reward: dice.pick([null, 1, -0.5]),
    rollout_log_probs: dice.chance(0.5) ? said.map(() => -dice.next()) : null,
    multi_modal_data: null,
    routed_experts: null,
    trajectory_uid: dice.chance(0.2) ? idOf(dice, ids, 'trajectory', 'session') : `white-box-${dice.below(9)}`,
    prompt_uid: 'p',
    step_index: dice.below(3),
    policy_version: dice.below(4),
    is_last: dice.chance(0.2),
    metadata: dice.pick<unknown>([null, { channel: 'val' }]),
  }
}
const episode = (dice: Dice, ids: Ids): Json => ({
  client_uuid: dice.pick(['client-a', 'client-b']),
  episode_uuid: idOf(dice, ids, 'episode'),
  task_id: 'task-1',
  declare_client_active: true,
  workflow_output: {
    reward: dice.pick<unknown>([1, 0, -1, [1], [0.5, 0.5], null, 3]),
    is_success: true,
    metadata: { task_id: dice.pick(['task-1', 'other']) },
    log_metrics: {},
  },
})

/** By the end of a route's path. */
const MAKERS: readonly (readonly [end: RegExp, make: (dice: Dice, ids: Ids) => Json])[] = [
  [/\/chat\/completions$/, chat],
  [/\/responses$/, responses],
  [/\/messages$/, messages],
  [/\/count_tokens$/, messages],
  [
    /\/feedback$/,
    (dice, ids) => ({
      ...(dice.chance(0.8) ? { turn_id: idOf(dice, ids, 'turn') } : { session_id: idOf(dice, ids, 'session') }),
      value: dice.pick<unknown>([true, false, 1, -1, 0.25]),
      ...maybe(dice, { comment: said(dice), user: 'anna' }),
    }),
  ],
  [
    /\/admin\//,
    (dice) => ({
      version: dice.below(4),
      keepLearning: dice.chance(0.5),
      branch: dice.pick(['again', 'taken', said(dice)]),
      ...maybe(dice, { request: said(dice), who: said(dice), why: said(dice) }),
    }),
  ],
  [
    /\/generate$/,
    (dice) => ({
      prompt_ids: tokens(dice),
      sampling_params: { temperature: 0.8, top_p: 1, max_tokens: 9, stop: dice.pick<unknown>([null, '.', ['a']]) },
      image_data: null,
      video_data: null,
    }),
  ],
  [/\/submit_steps$/, (dice, ids) => ({ steps: some(dice, 2, () => step(dice, ids)) })],
  [
    /trajectory/,
    (dice, ids) => ({
      trajectory_uid: idOf(dice, ids, 'trajectory'),
      channel: dice.pick(['train', 'val']),
      reward: dice.pick([1, 0, -0.5]),
      metadata: null,
    }),
  ],
  [
    /\/claim_episode$/,
    (dice) => ({
      client_uuid: 'client-a',
      episode_type: dice.pick(['train', 'eval']),
      discard_episode_timeout: 240,
      throttle_policy: { current_task_id: 'task-1' },
    }),
  ],
  [/episode/, episode],
]

export const bodyFor = (dice: Dice, ids: Ids, path: string): Json =>
  (MAKERS.find(([end]) => end.test(path))?.[1] ?? ((): Json => ({ client_uuid: 'client-a' })))(dice, ids)
