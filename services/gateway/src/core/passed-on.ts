/** What an engine of Chat Completions is told beside messages and tools: the fields of that interface that the client's own dialect spoke of. */
import { isFields, type Fields, type Request } from '@instar/dialects'
import { formatIn, formatOf } from './constraint.ts'

/** Of every dialect, by one name with one meaning. A field that is not named here stays here: it may be an order to the engine's server. */
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
/** Of OpenAI's two. */
const OPENAI = ['service_tier', 'user', 'safety_identifier', 'metadata'] as const
/** Of Chat Completions alone. */
const CHAT = ['reasoning_effort', 'reasoning', 'thinking', 'verbosity', 'store'] as const

/** `calling`: tools are offered. Throws `bad_request` for a form of the answer that is none. */
export const passedOn = (dialect: string, request: Request, calling: boolean): Fields => {
  const { body } = request
  const taken = (names: readonly string[]): Fields =>
    Object.fromEntries(names.flatMap((name) => ((body[name] ?? null) === null ? [] : [[name, body[name]]])))
  return {
    ...limitOf(dialect, request),
    ...taken(COMMON),
    ...templateFields(body['chat_template_kwargs']),
    ...(dialect === 'messages' ? {} : taken(OPENAI)),
    ...(dialect === 'chat' ? { ...taken(CHAT), ...predictionOf(body['prediction']) } : translated(dialect, body)),
    ...told('response_format', responseFormat(dialect, body)),
    ...(calling ? callingOf(dialect, body) : {}),
  }
}

/** What `apply_chat_template` is told by the engine itself: a client's word for one would be another prompt, or a program of its own. */
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

/** A text to be repeated: of its parts those that are texts. */
const predictionOf = (prediction: unknown): Fields => {
  if (!isFields(prediction)) return {}
  const { content } = prediction
  const parts = Array.isArray(content)
    ? content.filter(isFields).flatMap(({ text }) => (typeof text === 'string' ? [{ type: 'text', text }] : []))
    : content
  return typeof parts === 'string' || Array.isArray(parts) ? { prediction: { type: 'content', content: parts } } : {}
}

const told = (name: string, value: unknown): Fields => ((value ?? null) === null ? {} : { [name]: value })

/** By the name that the client chose, where it speaks that interface: hosted models know the newer one, small servers the older. */
const limitOf = (dialect: string, { body, maxTokens }: Request): Fields =>
  maxTokens === null
    ? {}
    : {
        [dialect === 'chat' && (body['max_completion_tokens'] ?? null) !== null
          ? 'max_completion_tokens'
          : 'max_tokens']: maxTokens,
      }

/** What the other dialects say in fields of their own. */
const translated = (dialect: string, body: Fields): Fields => {
  const within = (name: string, inner: string): unknown => (isFields(body[name]) ? body[name][inner] : null)
  return dialect === 'responses'
    ? { ...told('reasoning_effort', within('reasoning', 'effort')), ...told('verbosity', within('text', 'verbosity')) }
    : told('reasoning_effort', within('output_config', 'effort'))
}

const responseFormat = (dialect: string, body: Fields): unknown => {
  const { format } = formatIn(dialect, body)
  if (dialect === 'chat') return format
  const json = formatOf(dialect, body)
  if (json === null || !isFields(format)) return null
  if (format['type'] !== 'json_schema') return { type: 'json_object' }
  const { name, strict, description } = format
  return {
    type: 'json_schema',
    json_schema: {
      name: typeof name === 'string' ? name : 'answer',
      schema: json.schema,
      ...(typeof strict === 'boolean' ? { strict } : {}),
      ...(typeof description === 'string' ? { description } : {}),
    },
  }
}

/** Without tools neither is taken by OpenAI. */
const callingOf = (dialect: string, body: Fields): Fields => {
  const choice = body['tool_choice']
  const parallel =
    dialect === 'messages'
      ? isFields(choice) && choice['disable_parallel_tool_use'] === true
        ? false
        : null
      : body['parallel_tool_calls']
  return {
    ...told('tool_choice', dialect === 'chat' ? choice : choiceOf(choice)),
    ...told('parallel_tool_calls', parallel),
  }
}

const named = (choice: Fields): Fields => {
  const { name, namespace } = choice
  return {
    type: 'function',
    function: { name: typeof namespace === 'string' ? `${namespace}__${String(name)}` : name },
  }
}

/** Of Responses a word, `{type: function, name}` or `{type: allowed_tools}`; of Messages `{type: auto | any | tool | none, name}`. What runs elsewhere was not offered. */
const choiceOf = (choice: unknown): unknown => {
  if (!isFields(choice)) return choice
  const { type, name, mode, tools } = choice
  if (type === 'auto' || type === 'none') return type
  if (type === 'any') return 'required'
  if (typeof name === 'string') return named(choice)
  if (type === 'allowed_tools' && Array.isArray(tools))
    return { type, allowed_tools: { mode, tools: tools.filter(isFields).map(named) } }
  return null
}
