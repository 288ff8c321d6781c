/**
 * What an engine of Chat Completions is told beside messages and tools: the fields of that interface that the client used,
 * and translations of the other dialects' own. A field that is not named here is not passed on: it may be an order to the
 * engine's server.
 */
import { jsonFormat, type AnswerFormat } from './answer-format.ts'
import { isFields, type Fields } from './fields.ts'

/** One name and one meaning in every dialect. */
const COMMON = [
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'min_p',
  'enable_thinking',
  'prompt_cache_key',
  'prompt_cache_retention',
] as const
/** Of Chat Completions and Responses. */
export const OPENAI_FIELDS = ['service_tier', 'user', 'safety_identifier', 'metadata'] as const

export const taken = (body: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(names.flatMap((name) => ((body[name] ?? null) === null ? [] : [[name, body[name]]])))

export const set = (name: string, value: unknown): Fields => ((value ?? null) === null ? {} : { [name]: value })

/** A field of a field; null where either is absent. */
export const within = (body: Fields, name: string, inner: string): unknown =>
  isFields(body[name]) ? body[name][inner] : null

export const commonFields = (body: Fields): Fields => ({
  ...taken(body, COMMON),
  ...templateFields(body['chat_template_kwargs']),
})

/** Arguments of `apply_chat_template` that the engine sets itself: a client's would be another prompt, or a program. */
const OF_THE_ENGINE: ReadonlySet<string> = new Set([
  'chat_template',
  'conversation',
  'messages',
  'tools',
  'documents',
  'tokenize',
  'add_generation_prompt',
  'continue_final_message',
  'padding',
  'truncation',
  'max_length',
  'return_tensors',
  'return_dict',
  'return_assistant_tokens_mask',
  'tokenizer_kwargs',
])

const templateFields = (kwargs: unknown): Fields =>
  isFields(kwargs)
    ? { chat_template_kwargs: Object.fromEntries(Object.entries(kwargs).filter(([name]) => !OF_THE_ENGINE.has(name))) }
    : {}

/** The format of another dialect in the shape of `response_format`. Throws `bad_request` where it is no format. */
export const responseFormat = (answer: AnswerFormat): Fields => {
  const json = jsonFormat(answer)
  const { format } = answer
  if (json === null || !isFields(format)) return {}
  if (format['type'] !== 'json_schema') return { response_format: { type: 'json_object' } }
  const { name, strict, description } = format
  return {
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: typeof name === 'string' ? name : 'answer',
        schema: json.schema,
        ...(typeof strict === 'boolean' ? { strict } : {}),
        ...(typeof description === 'string' ? { description } : {}),
      },
    },
  }
}

const named = (choice: Fields): Fields => {
  const { name, namespace } = choice
  return {
    type: 'function',
    function: { name: typeof namespace === 'string' ? `${namespace}__${String(name)}` : name },
  }
}

/**
 * A tool choice of Responses (a word, `{type: function, name}`, `{type: allowed_tools}`) or of Messages (`{type: auto | any
 * | tool | none, name}`) in the shape of Chat Completions. Tools that run elsewhere were not offered.
 */
export const chatToolChoice = (choice: unknown): unknown => {
  if (!isFields(choice)) return choice
  const { type, name, mode, tools } = choice
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (typeof name === 'string') return named(choice)
  if (type === 'allowed_tools' && Array.isArray(tools))
    return { type, allowed_tools: { mode, tools: tools.filter(isFields).map(named) } }
  return null
}
