/** The output items of an answer. Their minted ids are the same each time. */
import type { Call, ParsedAnswer } from '../answer.ts'
import { isFields, type Fields } from '../fields.ts'
import { mintId } from '../minted.ts'
import type { ToolShape } from '../request.ts'

type ItemSource = {
  session: string
  turn: string
  shown: ParsedAnswer
  toolCallIds: readonly string[]
  shapes: ReadonlyMap<string, ToolShape>
  sealed: boolean
}

type TurnRef = Pick<ItemSource, 'session' | 'turn'>

export const reasoningItem = ({ session, turn }: TurnRef, text: string, sealed: boolean) => ({
  id: mintId('rs', session, turn),
  type: 'reasoning' as const,
  summary: text === '' ? [] : [{ type: 'summary_text' as const, text }],
  ...(sealed ? { encrypted_content: mintId('sealed', session, turn) } : {}),
})

export const textPart = (text: string) => ({
  type: 'output_text' as const,
  text,
  annotations: [],
  logprobs: [] as unknown[],
})

/** `index`: the number of earlier messages in the answer; above 0 if text follows a call. */
export const messageItem = (
  { session, turn }: TurnRef,
  status: 'in_progress' | 'completed' | 'incomplete',
  content: unknown[],
  index = 0,
) => ({
  id: mintId('msg', session, turn, index),
  type: 'message' as const,
  status,
  role: 'assistant' as const,
  content,
})

/** `full`: with its input or arguments; false: as at the start of its stream. */
export const callItem = (
  { session, turn }: TurnRef,
  call: Call,
  index: number,
  callId: string,
  shape: ToolShape | undefined,
  full = true,
): Fields => {
  const status = full ? 'completed' : 'in_progress'
  const named = {
    call_id: callId,
    name: shape?.name ?? call.name,
    ...(shape?.namespace ? { namespace: shape.namespace } : {}),
  }
  if (shape?.kind === 'custom')
    return {
      id: mintId('ctc', session, turn, index),
      type: 'custom_tool_call',
      status,
      ...named,
      input: full ? customInput(call) : '',
    }
  return {
    id: mintId('fc', session, turn, index),
    type: 'function_call',
    status,
    ...named,
    arguments: full ? call.arguments : '',
  }
}

/** The input of a custom tool: the `input` string of its arguments, or their text if there is none. */
export const customInput = (call: Call): string => {
  try {
    const value: unknown = JSON.parse(call.arguments)
    if (isFields(value) && typeof value['input'] === 'string') return value['input']
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return call.arguments
}

/** The items in order: reasoning, message, calls. */
export const itemsOf = (
  source: ItemSource,
  status: 'completed' | 'incomplete' = 'completed',
  logprobs: unknown[] = [],
): Fields[] => {
  const { shown, toolCallIds, shapes } = source
  const reasoning = shown.reasoning.trim()
  return [
    ...(reasoning === '' ? [] : [reasoningItem(source, reasoning, source.sealed)]),
    ...(shown.content === '' && shown.calls.length > 0
      ? []
      : [messageItem(source, status, [{ ...textPart(shown.content), logprobs }])]),
    ...shown.calls.map((call, i) => callItem(source, call, i, toolCallIds[i]!, shapes.get(call.name))),
  ]
}
