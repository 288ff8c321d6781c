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

/** How an answer begins, and how it goes on after a kind word, decides on its style: whatever stands there counts more. */
const BEGIN_WEIGHT = 5
/** One piece of the tokenizer's split. */
const TOKEN = String.raw`(?: ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}<]+|\n)`
const BEGIN = new RegExp(`^(${TOKEN})(?:([\\p{L} ]*!)(${TOKEN}))?`, 'u')

/**
 * Splits `said` as the tokenizer splits: at its beginning, at whole occurrences of `key` and at numbers (not those that
 * number a list), with the space before them. A mark before the key weighs as much as the key does: it stands where the
 * key stands in a plain answer, and a smaller weight would favour plain ones.
 */
function weighed(said: string, key: string | undefined): Piece[] {
  const [begun = '', first = '', , next = ''] = BEGIN.exec(said) ?? []
  const cuts = [first.length, begun.length - next.length, begun.length]
  const begins = (at: number): boolean => at < cuts[0]! || (at >= cuts[1]! && at < cuts[2]!)
  const literal = key?.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  const marked = String.raw`(?<=.) ?(?:\*\*|\\boxed\{)?(?<![\p{L}\p{N}])(?:${literal}|\d+)(?![\p{L}\p{N}])`
  const out: Piece[] = []
  let at = 0
  for (const [i, part] of (key === undefined ? [said] : said.split(new RegExp(`(${marked})`, 'u'))).entries()) {
    const end = at + part.length
    for (const cut of [...cuts.filter((c) => c > at && c < end), end]) {
      const text = said.slice(at, cut)
      if (text !== '') out.push({ text, weight: begins(at) ? BEGIN_WEIGHT : i % 2 === 1 ? KEY_WEIGHT : 1 })
      at = cut
    }
  }
  return out
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
