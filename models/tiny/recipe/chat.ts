/** Messages of the corpus and how they become text: the same as `chat_template.jinja`, which a test asserts. */
export type ToolCall = { type: 'function'; function: { name: string; arguments: Record<string, string | number> } }
export type Tool = { type: 'function'; function: { name: string; description: string; parameters: { type: 'object'; properties: Record<string, { type: string }>; required: string[] } } }

/** `learn`: whether the model is to say this (assistant) or only to read it. */
export type Turn = { role: 'system' | 'user' | 'assistant' | 'tool'; content: string; toolCalls?: ToolCall[]; learn: boolean }
export type Conversation = { tools: readonly Tool[]; turns: readonly Turn[] }

/** JSON as Python and Hugging Face templates write it: a space after each comma and colon. */
export function spacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(', ')}]`
  if (value !== null && typeof value === 'object') return `{${Object.entries(value).map(([k, v]) => `${JSON.stringify(k)}: ${spacedJson(v)}`).join(', ')}}`
  return JSON.stringify(value)
}

const toolsBlock = (tools: readonly Tool[]): string =>
  `You can call these tools. Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call> to call one.\n<tools>\n${tools.map(spacedJson).join('\n')}\n</tools>`

/** A piece of rendered text; `learn` pieces carry loss. Concatenated they are the whole prompt. */
export type Piece = { text: string; learn: boolean }

export function pieces({ tools, turns }: Conversation): Piece[] {
  const out: Piece[] = []
  const [first] = turns
  const system = first?.role === 'system' ? first.content : null
  if (tools.length > 0) out.push({ text: `<|im_start|>system\n${system === null ? '' : `${system}\n\n`}${toolsBlock(tools)}<|im_end|>\n`, learn: false })
  else if (system !== null) out.push({ text: `<|im_start|>system\n${system}<|im_end|>\n`, learn: false })
  for (const turn of turns) {
    if (turn.role === 'system') continue
    const calls = (turn.toolCalls ?? []).map(c => `<tool_call>\n${spacedJson({ name: c.function.name, arguments: c.function.arguments })}\n</tool_call>`).join('\n')
    const said = calls === '' ? turn.content : turn.content === '' ? calls : `${turn.content}\n${calls}`
    out.push({ text: `<|im_start|>${turn.role}\n`, learn: false })
    out.push({ text: `${said}<|im_end|>`, learn: turn.learn })
    out.push({ text: '\n', learn: false })
  }
  return out
}
