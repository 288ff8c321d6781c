/** Messages of the corpus and how they become text: the same as `chat_template.jinja`, which a test asserts. */
export type ToolCall = { type: 'function'; function: { name: string; arguments: Record<string, string | number> } }
export type Tool = {
  type: 'function'
  function: {
    name: string
    description: string
    parameters: { type: 'object'; properties: Record<string, { type: string }>; required: string[] }
  }
}

/** `learn`: whether the model is to say this (assistant) or only to read it. `key`: where in it the one right answer stands. */
export type Turn = {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string
  toolCalls?: ToolCall[]
  learn: boolean
  key?: string
}
export type Conversation = { tools: readonly Tool[]; turns: readonly Turn[] }

/** JSON as Python and Hugging Face templates write it: a space after each comma and colon. */
function spacedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(spacedJson).join(', ')}]`
  if (value !== null && typeof value === 'object')
    return `{${Object.entries(value)
      .map(([k, v]) => `${JSON.stringify(k)}: ${spacedJson(v)}`)
      .join(', ')}}`
  return JSON.stringify(value)
}

const toolsBlock = (tools: readonly Tool[]): string =>
  `You can call these tools. Answer with <tool_call>{"name": ..., "arguments": ...}</tool_call> to call one.\n<tools>\n${tools.map(spacedJson).join('\n')}\n</tools>`

/** A piece of rendered text and the weight of its tokens in the loss. Concatenated, texts and tokens are those of the whole. */
export type Piece = { text: string; weight: number }

/** What the answer says is a few tokens among many of style, and the part that is hard to learn. */
const KEY_WEIGHT = 4

/**
 * Splits `said` at whole occurrences of `key` and at numbers (not those that number a list), with the space
 * before them, as the tokenizer splits. What stands at the very beginning keeps weight 1: a larger one would
 * favour terse answers.
 */
function weighed(said: string, key: string | undefined): Piece[] {
  if (key === undefined) return [{ text: said, weight: 1 }]
  const literal = key.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return said
    .split(new RegExp(`((?<=.) ?(?<![\\p{L}\\p{N}])(?:${literal}|\\d+)(?![\\p{L}\\p{N}]))`, 'u'))
    .map((text, i) => ({ text, weight: i % 2 === 1 ? KEY_WEIGHT : 1 }))
    .filter((piece) => piece.text !== '')
}

export function pieces({ tools, turns }: Conversation): Piece[] {
  const out: Piece[] = []
  const [first] = turns
  const system = first?.role === 'system' ? first.content : null
  if (tools.length > 0)
    out.push({
      text: `<|im_start|>system\n${system === null ? '' : `${system}\n\n`}${toolsBlock(tools)}<|im_end|>\n`,
      weight: 0,
    })
  else if (system !== null) out.push({ text: `<|im_start|>system\n${system}<|im_end|>\n`, weight: 0 })
  for (const turn of turns) {
    if (turn.role === 'system') continue
    const calls = (turn.toolCalls ?? [])
      .map(
        (c) => `<tool_call>\n${spacedJson({ name: c.function.name, arguments: c.function.arguments })}\n</tool_call>`,
      )
      .join('\n')
    const said = calls === '' ? turn.content : turn.content === '' ? calls : `${turn.content}\n${calls}`
    out.push({ text: `<|im_start|>${turn.role}\n`, weight: 0 })
    out.push(...(turn.learn ? weighed(`${said}<|im_end|>`, turn.key) : [{ text: `${said}<|im_end|>`, weight: 0 }]))
    out.push({ text: '\n', weight: 0 })
  }
  return out
}
