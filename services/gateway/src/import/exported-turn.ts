/** A turn in the form that `instar import` reads, with its feedback and the outcome of its episode. */
import { readWritten, type SessionState, type TurnState } from '@instar/events'
import { parseAnswer, parseJson } from '@instar/dialects'
import type { TurnReader } from '@instar/log'

/** Throws as the reader does. */
export const exportTurn = async (
  reader: TurnReader,
  state: TurnState,
  session: Pick<SessionState, 'outcome'>,
): Promise<object> => {
  const turn = await reader.record(state.turn)
  const text = readWritten(turn.text)
  const { content, reasoning, toolCalls } = parseAnswer(text)
  const exact = turn.tokens === 'exact'
  return {
    session_id: turn.session,
    dialect: turn.dialect,
    kind: turn.kind,
    started_at: turn.at,
    first_token_at: turn.firstTokenAt,
    finished_at: turn.finishedAt,
    subject: turn.subject,
    group: turn.group,
    ...(turn.userTurn === null ? {} : { user_turn: turn.userTurn }),
    ...(turn.agent ? { agent: turn.agent } : {}),
    engine: turn.engine,
    ...(turn.version < 0 ? {} : { version: turn.version, adapter: turn.adapter }),
    ...(turn.reason === 'opted_out' ? { no_train: true } : {}),
    ...(state.task === null ? {} : { task_id: state.task }),
    ...(state.outcomeBy === null ? {} : outcomeOf(session)),
    ...(state.discardedBy === null ? {} : { discarded: true }),
    request: parseJson(await reader.body(turn.turn)),
    sampling: turn.sampling,
    response: {
      ...(turn.version < 0 ? {} : { system_fingerprint: `instar-${turn.policy}@${turn.version}` }),
      ...(exact ? { prompt_token_ids: await reader.promptIds(turn.turn) } : {}),
      choices: [
        {
          index: turn.candidate,
          turn_id: turn.turn,
          finish_reason: turn.type === 'TurnAborted' ? 'stop' : turn.finish,
          raw_text: text,
          message: {
            role: 'assistant',
            content: content === '' && toolCalls.length > 0 ? null : content,
            ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
            ...(toolCalls.length === 0
              ? {}
              : {
                  tool_calls: toolCalls.map((call, i) => ({
                    id: turn.toolCallIds[i] ?? '',
                    type: 'function',
                    function: call,
                  })),
                }),
          },
          ...(exact
            ? { token_ids: turn.ids, logprobs: { content: turn.logprobs.map((logprob) => ({ logprob })) } }
            : {}),
        },
      ],
    },
    ...(state.feedback.length === 0
      ? {}
      : {
          feedback: state.feedback.map(({ id, value, comment, at }) => ({
            id,
            value,
            comment: comment && readWritten(comment),
            at,
          })),
        }),
  }
}

/** The outcome, in the line of every turn that it covers. */
const outcomeOf = ({ outcome }: Pick<SessionState, 'outcome'>): object =>
  outcome === null
    ? {}
    : {
        outcome: {
          value: outcome.value,
          ...(outcome.task === null ? {} : { task_id: outcome.task }),
          at: outcome.at,
        },
      }
