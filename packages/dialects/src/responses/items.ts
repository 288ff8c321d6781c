/** The items that an answer consists of, by ids of ours: the same whenever they are asked for. */
import type { Call, Shown } from '../answer.ts'
import { isFields, type Fields } from '../fields.ts'
import { mintId } from '../minted.ts'
import type { ToolShape } from '../request.ts'

export type Said = {
  session: string
  turn: string
  shown: Shown
  toolCallIds: readonly string[]
  shapes: ReadonlyMap<string, ToolShape>
  sealed: boolean
}

type TurnRef = Pick<Said, 'session' | 'turn'>

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

/** `index`: how many messages of the answer come before it; more than one where it went on after a call. */
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

/** `full` false: as it is when it begins. */
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

/** The input of a custom tool: the text in the arguments, or the arguments themselves. */
export const customInput = (call: Call): string => {
  try {
    const value: unknown = JSON.parse(call.arguments)
    if (isFields(value) && typeof value['input'] === 'string') return value['input']
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  return call.arguments
}

/** In order: reasoning, message, calls. */
export const itemsOf = (
  said: Said,
  status: 'completed' | 'incomplete' = 'completed',
  logprobs: unknown[] = [],
): Fields[] => {
  const { shown, toolCallIds, shapes } = said
  const reasoning = shown.reasoning.trim()
  return [
    ...(reasoning === '' ? [] : [reasoningItem(said, reasoning, said.sealed)]),
    ...(shown.content === '' && shown.calls.length > 0
      ? []
      : [messageItem(said, status, [{ ...textPart(shown.content), logprobs }])]),
    ...shown.calls.map((call, i) => callItem(said, call, i, toolCallIds[i]!, shapes.get(call.name))),
  ]
}
