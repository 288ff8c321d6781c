/**
 * The fields besides messages and tools that an engine with the Chat Completions API receives: the client's own fields
 * of that API, and conversions of fields of the other dialects. This is an allow list, since an unknown field may
 * control the engine's server.
 */
import { jsonFormat, type AnswerFormat } from './answer-format.ts'
import { isFields, type Fields } from './fields.ts'

/** Fields with the same name and meaning in every dialect. */
const COMMON_FIELDS = [
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'logit_bias',
  'min_p',
  'enable_thinking',
  'prompt_cache_key',
  'prompt_cache_retention',
] as const
/** Fields with the same name and meaning in Chat Completions and Responses. */
export const OPENAI_FIELDS = ['service_tier', 'user', 'safety_identifier', 'metadata'] as const

/** The named fields that are set. */
export const taken = (body: Fields, names: readonly string[]): Fields =>
  Object.fromEntries(names.flatMap((name) => ((body[name] ?? null) === null ? [] : [[name, body[name]]])))

export const set = (name: string, value: unknown): Fields => ((value ?? null) === null ? {} : { [name]: value })

/** The value of `body[name][inner]`; null if either is absent. */
export const within = (body: Fields, name: string, inner: string): unknown =>
  isFields(body[name]) ? body[name][inner] : null

export const commonFields = (body: Fields): Fields => ({
  ...taken(body, COMMON_FIELDS),
  ...templateFields(body['chat_template_kwargs']),
})

/**
 * Arguments of `apply_chat_template` that the engine sets itself. A client's value would replace the prompt or run the
 * client's template.
 */
const RESERVED_TEMPLATE_ARGUMENTS: ReadonlySet<string> = new Set([
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
    ? {
        chat_template_kwargs: Object.fromEntries(
          Object.entries(kwargs).filter(([name]) => !RESERVED_TEMPLATE_ARGUMENTS.has(name)),
        ),
      }
    : {}

/** Converts the answer format of another dialect to `response_format`. Throws `bad_request` if it is invalid. */
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

const functionChoice = (choice: Fields): Fields => {
  const { name, namespace } = choice
  return {
    type: 'function',
    function: { name: typeof namespace === 'string' ? `${namespace}__${String(name)}` : name },
  }
}

/**
 * Converts a tool choice of Responses (a string, `{type: function, name}`, `{type: allowed_tools}`) or of Messages
 * (`{type: auto | any | tool | none, name}`) to Chat Completions. Null for other types: choices of hosted tools, which
 * are dropped.
 */
export const chatToolChoice = (choice: unknown): unknown => {
  if (!isFields(choice)) return choice
  const { type, name, mode, tools } = choice
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (typeof name === 'string') return functionChoice(choice)
  if (type === 'allowed_tools' && Array.isArray(tools))
    return { type, allowed_tools: { mode, tools: tools.filter(isFields).map(functionChoice) } }
  return null
}
