/**
 * Parses trajectory steps as Claw-R1 collects them: `{prompt_ids, response_ids, rollout_log_probs?, reward?,
 * trajectory_uid, prompt_uid, step_index, policy_version, is_last, metadata}`. A step holds token ids only; the text is
 * decoded with the model's tokenizer.
 */
import { contentSha, derivedId } from '@instar/events'
import { parseAnswer, DIALECTS, flag, integer, isFields, number, text, wrong, type Fields } from '@instar/dialects'
import { newSession, promptGroup, sessionOfLabel } from '../../session/core/labels.ts'
import { NO_EPISODE } from './episode.ts'
import { messagesOfPrompt } from './prompt-text.ts'
import {
  idsOf,
  numbersOf,
  rewardOf,
  samplingOf,
  timesOf,
  type Reading,
  type ImportedRequest,
} from './imported-request.ts'

export const isStep = (line: Fields): boolean => line['prompt_ids'] !== undefined && line['response_ids'] !== undefined

/** Throws `bad_request`. */
export const readStep = (step: Fields, reading: Reading): ImportedRequest => {
  const { decode, key } = reading
  const promptIds = idsOf(step['prompt_ids'], 'prompt_ids') ?? []
  const ids = idsOf(step['response_ids'], 'response_ids') ?? []
  if (promptIds.length === 0 || ids.length === 0)
    throw wrong(promptIds.length === 0 ? 'prompt_ids' : 'response_ids', 'a list of at least one token id')
  if (step['multi_modal_data'] !== undefined && step['multi_modal_data'] !== null)
    throw wrong('multi_modal_data', 'absent: this model takes text only')
  if (decode === null) throw wrong('prompt_ids', 'ids of the model of INSTAR_MODEL, which cannot be read')
  const metadata = isFields(step['metadata']) ? step['metadata'] : {}
  const trajectory = text(step, 'trajectory_uid')
  const prompt = text(step, 'prompt_uid')
  const index = integer(step, 'step_index', 0, 1e9) ?? 0
  const reward = rewardOf(step['reward'], 'reward', reading)
  const version = integer(step, 'policy_version', 0, 1e9)
  const raw = decode(ids)
  const said = parseAnswer(raw)
  const body = {
    messages: messagesOfPrompt(promptIds, decode),
    ...(typeof metadata['user'] === 'string' ? { user: metadata['user'] } : {}),
  }
  const request = DIALECTS.chat.request(body)
  const promptSha = contentSha(Buffer.from(JSON.stringify(promptIds)))
  const noted = isFields(metadata['sampling_params']) ? metadata['sampling_params'] : metadata
  return {
    session:
      trajectory === null
        ? newSession(key, derivedId('import', 'step', promptSha, JSON.stringify(ids)).slice(0, 32))
        : sessionOfLabel(key, trajectory),
    labelSource: trajectory === null ? 'fingerprint' : 'header',
    dialect: 'chat',
    request,
    raw: Buffer.from(JSON.stringify(body), 'utf8'),
    headers: {},
    answers: [
      {
        turn: null,
        candidate: 0,
        content: said.content,
        reasoning: said.reasoning,
        calls: said.toolCalls,
        callIds: said.toolCalls.map(() => ''),
        raw,
        finish:
          said.toolCalls.length > 0
            ? 'tool_calls'
            : metadata['finish_reason'] === 'length' || metadata['stop_reason'] === 'length'
              ? 'length'
              : 'stop',
        ids,
        logprobs: numbersOf(step['rollout_log_probs'], 'rollout_log_probs'),
        rewards: reward === null ? [] : [{ id: null, value: reward, comment: null, at: null }],
      },
    ],
    candidates: 1,
    promptIds,
    claim: version === null ? null : { version, ours: reading.ownVersions },
    sampling: samplingOf(request, {
      temperature: number(noted, 'temperature', 0, 2),
      topP: number(noted, 'top_p', 0, 1),
      topK: integer(noted, 'top_k', -1, 2 ** 31 - 1),
    }),
    times: timesOf({ ...metadata, ...step }),
    user: request.user,
    userTurn: null,
    agent: null,
    subject: null,
    kind: null,
    optedOut: step['trainable'] === false || metadata['trainable'] === false,
    identity: trajectory === null ? contentSha(Buffer.from(JSON.stringify([promptIds, ids]))) : `step ${index}`,
    // Rollouts of one prompt form a group only if their prompts are equal.
    group: prompt === null || index > 0 ? null : promptGroup(key, prompt, promptSha),
    engine: text(metadata, 'engine') ?? 'imported',
    last: flag(step, 'is_last'),
    episode: NO_EPISODE,
  }
}

/** The step's index in its trajectory. */
export const placeOf = (step: Fields): number => (typeof step['step_index'] === 'number' ? step['step_index'] : 0)
