/** A chat template (Jinja, as Hugging Face writes them), rendered with nothing taken from the clock. */
import { Environment, Interpreter, Template } from '@huggingface/jinja'
import { InstarError } from '@instar/events/errors'

export type TemplateInput = {
  messages: readonly unknown[]
  tools: readonly unknown[] | null
  addGenerationPrompt: boolean
  bosToken: string
  eosToken: string
  /** Milliseconds since 1970, for `strftime_now`, in UTC. Null: the template finds it undefined and takes its fallback. */
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

/** The directives of Python's strftime that templates use; others stay as they are. English and UTC, whatever the host. */
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
    raise_exception(message: string) {
      throw new InstarError('bad_request', `The model's chat template refuses these messages: ${message}`)
    },
    messages: input.messages,
    add_generation_prompt: input.addGenerationPrompt,
    bos_token: input.bosToken,
    eos_token: input.eosToken,
  }
  if (input.tools && input.tools.length > 0) values['tools'] = input.tools
  const { now } = input
  if (now !== null) values['strftime_now'] = (format: string) => strftime(format, now)
  for (const [name, value] of Object.entries(values)) environment.set(name, value)
  return environment
}

/** Work that a template may do, in evaluated expressions: so much, and so much more for each message, call of a tool and tool. */
const WORK = 200_000
const WORK_PER_PART = 500
/** What the beginning of one pass through a loop costs beside what is in it. */
const PASS = 8

type Node = { type: string; iterable?: Node; lhs?: Node }
type Valued = { value?: unknown }
/** What is used of the library's class. */
const Runner = Interpreter as unknown as new (environment: Environment) => {
  run(program: unknown): Valued
  evaluate(node: Node | undefined, environment: unknown): Valued
}

/** Counts what it does, the same on every machine, and gives up at a limit: a template of a strange model holds nobody up. */
class BoundedInterpreter extends Runner {
  private left: number
  private readonly limit: number
  /** What loops go through: of its length is how often they pass. */
  private readonly iterated = new WeakSet<object>()

  constructor(environment: Environment, limit: number) {
    super(environment)
    this.limit = limit
    this.left = limit
  }

  override evaluate(node: Node | undefined, environment: unknown): Valued {
    if (node?.type === 'For' && node.iterable)
      for (const one of [node.iterable, node.iterable.lhs]) if (one) this.iterated.add(one)
    this.spend(1)
    const result = super.evaluate(node, environment)
    const { value } = result
    if (typeof value === 'string') this.spend(value.length >>> 8)
    else if (Array.isArray(value))
      this.spend(node && this.iterated.has(node) ? PASS * value.length : value.length >>> 4)
    return result
  }

  private spend(work: number): void {
    this.left -= work
    if (this.left < 0)
      throw new InstarError(
        'bad_request',
        `The model's chat template does more than ${this.limit} steps on these messages.`,
      )
  }
}

const workOf = ({ messages, tools }: TemplateInput): number => {
  const calls = messages.reduce<number>(
    (sum, message) => sum + ((message as { tool_calls?: unknown[] } | null)?.tool_calls?.length ?? 0),
    0,
  )
  return WORK + WORK_PER_PART * (messages.length + calls + (tools?.length ?? 0))
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
