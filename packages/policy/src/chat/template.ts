/** A chat template (Jinja, as Hugging Face writes them), rendered with nothing taken from the clock. */
import { Environment, Template } from '@huggingface/jinja'
import { InstarError } from '@instar/events/errors'
import { BoundedInterpreter } from './bounded.ts'

export type TemplateInput = {
  messages: readonly unknown[]
  tools: readonly unknown[] | null
  addGenerationPrompt: boolean
  bosToken: string
  eosToken: string
  /**
   * Milliseconds since the epoch for `strftime_now`, in UTC. Null: the function is undefined and the template takes
   * its fallback.
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
/** Characters of what a template gives as a reason, or as the form of a date. */
const MOST_SAID = 1000

/**
 * The directives of Python's strftime that templates use; others stay as they are. English and UTC, whatever the
 * host.
 */
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
  if (![from, to, step].every(Number.isSafeInteger)) throw new Error('range() takes whole numbers')
  if (step === 0 || Math.abs((to - from) / step) > MAX_RANGE) throw new Error('range() has no step or too many')
  const out: number[] = []
  for (let i = from; step > 0 ? i < to : i > to; i += step) out.push(i)
  return out
}

/** What a template may name besides its input. The library's own set would bring in the host's clock. */
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
      const said = typeof message === 'string' ? message.slice(0, MOST_SAID) : 'it does not say why'
      throw new InstarError('bad_request', `The model's chat template refuses these messages: ${said}`)
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
      if (typeof format !== 'string' || format.length > MOST_SAID) throw new Error('strftime_now() takes a short text')
      return strftime(format, now)
    }
  for (const [name, value] of Object.entries(values)) environment.set(name, value)
  return environment
}

/**
 * Steps that a template may do: so many, so many more for each message, call of a tool and tool, and one for so many
 * characters of them; in all never more than the most, which takes a second at the worst that is known
 * (docs/decisions.md).
 */
const WORK = 200_000
const WORK_PER_PART = 500
const CHARACTERS_PER_STEP = 4
const MOST_WORK = 2_000_000

const workOf = ({ messages, tools }: TemplateInput): number => {
  const calls = messages.reduce<number>(
    (sum, message) => sum + ((message as { tool_calls?: unknown[] } | null)?.tool_calls?.length ?? 0),
    0,
  )
  const parts = messages.length + calls + (tools?.length ?? 0)
  const work = WORK + WORK_PER_PART * parts + Math.floor(charactersIn([messages, tools]) / CHARACTERS_PER_STEP)
  return Math.min(work, MOST_WORK)
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
      throw new InstarError(
        'bad_checkpoint',
        `${file}: ${error instanceof Error ? error.message : 'cannot be read'}`,
        { file },
        { cause: error },
      )
    }
  }

  /** Throws `bad_request` where the template refuses the messages, fails on them or does not end within its steps. */
  render(input: TemplateInput): string {
    try {
      const value = new BoundedInterpreter(globals(input), workOf(input)).run(this.template.parsed)
      if (typeof value.value !== 'string') throw new Error('it gave no text')
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
