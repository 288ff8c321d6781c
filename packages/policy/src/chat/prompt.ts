/**
 * Renders messages and encodes them to prompt ids. Control tokens written by the template are recognised; the same
 * characters inside a message are plain text. The sampled ids of an assistant message (`token_ids`) are inserted into
 * the prompt unchanged, in place of its content, reasoning and tool calls.
 */
import { InstarError } from '@instar/events/errors'
import type { ChatMessage } from '@instar/engine/port'
import type { TextTokenizer } from '../tokenizer/tokenizer.ts'
import { normalise } from './messages.ts'
import type { ChatTemplate } from './template.ts'

type PromptOptions = { tools?: readonly unknown[]; addGenerationPrompt: boolean; now?: number }

/** `count` characters that do not occur in `text`: Unicode noncharacters first, then private-use characters. */
function unused(text: string, count: number): string[] {
  const found: string[] = []
  for (let point = 0xfdd0; found.length < count && point < 0xf1000; point = point === 0xfdef ? 0xf0000 : point + 1) {
    const character = String.fromCodePoint(point)
    if (!text.includes(character)) found.push(character)
  }
  if (found.length < count)
    throw new InstarError('bad_request', 'The messages contain every noncharacter and private-use character.')
  return found
}

/** Applies `map` to every string and key inside a JSON value. */
function mapStrings(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value)
  if (Array.isArray(value)) return value.map((entry: unknown) => mapStrings(entry, map))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [map(key), mapStrings(entry, map)]))
}

function tokenIds(message: ChatMessage, where: string): readonly number[] | null {
  const ids = message['token_ids']
  if (ids === undefined || ids === null) return null
  if (
    message.role !== 'assistant' ||
    !Array.isArray(ids) ||
    !ids.every((id): id is number => Number.isSafeInteger(id) && Number(id) >= 0)
  ) {
    throw new InstarError(
      'bad_request',
      `${where}.token_ids must be an array of token ids, and is allowed on assistant messages only.`,
      {
        field: `${where}.token_ids`,
      },
    )
  }
  return ids
}

export class Prompter {
  private readonly tokenizer: TextTokenizer
  private readonly template: ChatTemplate
  private readonly bosToken: string
  private readonly eosToken: string
  private readonly endOfTurn: ReadonlySet<number>

  constructor(
    tokenizer: TextTokenizer,
    template: ChatTemplate,
    special: { bosToken: string; eosToken: string; endOfTurn: readonly number[] },
  ) {
    this.tokenizer = tokenizer
    this.template = template
    this.bosToken = special.bosToken
    this.eosToken = special.eosToken
    this.endOfTurn = new Set(special.endOfTurn)
  }

  private renderNormalised(messages: readonly unknown[], tools: readonly unknown[], options: PromptOptions): string {
    return this.template.render({
      messages,
      tools,
      addGenerationPrompt: options.addGenerationPrompt,
      bosToken: this.bosToken,
      eosToken: this.eosToken,
      now: options.now ?? null,
    })
  }

  render(messages: readonly ChatMessage[], options: PromptOptions): string {
    return this.renderNormalised(normalise(messages), options.tools ?? [], options)
  }

  ids(messages: readonly ChatMessage[], options: PromptOptions): number[] {
    const normal = normalise(messages)
    const [mark, splice] = unused(JSON.stringify([normal, options.tools ?? []]), 2) as [string, string]
    const spliced = new Map<number, readonly number[]>()
    const guarded = normal.map((message, i) => {
      const ids = tokenIds(message, `messages[${i}]`)
      if (ids) {
        // The template adds the end-of-turn token.
        const last = ids.at(-1)
        spliced.set(i, last !== undefined && this.endOfTurn.has(last) ? ids.slice(0, -1) : ids)
        return { role: 'assistant', content: `${splice}${i}${splice}` }
      }
      return mapStrings(message, (text) => this.tokenizer.guard(text, mark, message.role === 'assistant'))
    })
    const tools = (options.tools ?? []).map((tool) =>
      mapStrings(tool, (text) => this.tokenizer.guard(text, mark, false)),
    )
    return this.tokenizer.encodeMarked(this.renderNormalised(guarded, tools, options), mark, splice, spliced)
  }
}
