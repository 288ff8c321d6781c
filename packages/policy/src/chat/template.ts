/** Chat templates (Jinja, as in Hugging Face checkpoints), rendered with limited work and without the system clock. */
import { Environment, Template } from '@huggingface/jinja'
import { InstarError } from '@instar/events/errors'
import { unreadable } from '../checkpoints/bad-checkpoint.ts'
import { BoundedInterpreter } from './bounded.ts'

type TemplateInput = {
  messages: readonly unknown[]
  tools: readonly unknown[] | null
  addGenerationPrompt: boolean
  bosToken: string
  eosToken: string
  /**
   * The time that `strftime_now` formats, in milliseconds since the epoch. Null: the function is undefined, and a
   * template uses its fallback.
   */
  now: number | null
}

const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
]
const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday']
const MAX_RANGE = 100_000
/** Most characters of a template's exception message and of a date format. */
const MAX_TEXT = 1000

/** Python's strftime for the directives below; others are left unchanged. Names are English, the time zone is UTC. */
export function strftime(format: string, now: number): string {
  const date = new Date(now)
  const two = (n: number) => String(n).padStart(2, '0')
  const month = MONTHS[date.getUTCMonth()] ?? ''
  const day = DAYS[date.getUTCDay()] ?? ''
  const parts: Record<string, string> = {
    Y: String(date.getUTCFullYear()),
    m: two(date.getUTCMonth() + 1),
    d: two(date.getUTCDate()),
    H: two(date.getUTCHours()),
    M: two(date.getUTCMinutes()),
    S: two(date.getUTCSeconds()),
    B: month,
    b: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    '%': '%',
  }
  return format.replace(/%([A-Za-z%])/g, (whole, letter: string) => parts[letter] ?? whole)
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop]
  if (![from, to, step].every(Number.isSafeInteger)) throw new Error('the arguments of range() must be integers')
  if (step === 0 || Math.abs((to - from) / step) > MAX_RANGE)
    throw new Error(`range() must have a step other than 0 and at most ${MAX_RANGE} numbers`)
  const out: number[] = []
  for (let i = from; step > 0 ? i < to : i > to; i += step) out.push(i)
  return out
}

/** The global names of a template. The library's default set is not used, since it provides the system clock. */
function globals(input: TemplateInput): Environment {
  const environment = new Environment()
  const values: Record<string, unknown> = {
    true: true,
    false: false,
    none: null,
    True: true,
    False: false,
    None: null,
    range,
    raise_exception(message: unknown) {
      const reason = typeof message === 'string' ? message.slice(0, MAX_TEXT) : 'no reason given'
      throw new InstarError('bad_request', `The model's chat template refuses these messages: ${reason}`)
    },
    messages: input.messages,
    add_generation_prompt: input.addGenerationPrompt,
    bos_token: input.bosToken,
    eos_token: input.eosToken,
  }
  if (input.tools && input.tools.length > 0) values['tools'] = input.tools
  const { now } = input
  if (now !== null)
    values['strftime_now'] = (format: unknown) => {
      if (typeof format !== 'string' || format.length > MAX_TEXT)
        throw new Error(`the argument of strftime_now() must be a string of at most ${MAX_TEXT} characters`)
      return strftime(format, now)
    }
  for (const [name, value] of Object.entries(values)) environment.set(name, value)
  return environment
}

/**
 * The limit of steps of a template (bounded.ts): BASE_STEPS, STEPS_PER_PART more for each message, tool call and tool,
 * and one more for CHARACTERS_PER_STEP characters of them, but at most MAX_STEPS, which take a second in the worst
 * known case (docs/decisions.md).
 */
const BASE_STEPS = 200_000
const STEPS_PER_PART = 500
const CHARACTERS_PER_STEP = 4
const MAX_STEPS = 2_000_000

const stepLimit = ({ messages, tools }: TemplateInput): number => {
  const calls = messages.reduce<number>(
    (sum, message) => sum + ((message as { tool_calls?: unknown[] } | null)?.tool_calls?.length ?? 0),
    0,
  )
  const parts = messages.length + calls + (tools?.length ?? 0)
  const steps = BASE_STEPS + STEPS_PER_PART * parts + Math.floor(charactersIn([messages, tools]) / CHARACTERS_PER_STEP)
  return Math.min(steps, MAX_STEPS)
}

const charactersIn = (value: unknown): number => {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  let sum = 0
  for (const inner of Object.values(value)) sum += charactersIn(inner)
  return sum
}

export class ChatTemplate {
  private readonly template: Template

  constructor(source: string, file = 'chat_template.jinja') {
    try {
      this.template = new Template(source)
    } catch (error) {
      throw unreadable(file, error)
    }
  }

  /** Throws `bad_request` if the template refuses the messages, fails on them, or exceeds its limit of steps. */
  render(input: TemplateInput): string {
    try {
      const value = new BoundedInterpreter(globals(input), stepLimit(input)).run(this.template.parsed)
      if (typeof value.value !== 'string') throw new Error('the result is not a string')
      return value.value
    } catch (error) {
      if (error instanceof InstarError) throw error
      throw new InstarError(
        'bad_request',
        `The model's chat template fails on these messages: ${error instanceof Error ? error.message : String(error)}`,
        {},
        { cause: error },
      )
    }
  }
}
