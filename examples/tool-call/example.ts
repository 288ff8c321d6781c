/** Choose the right tool with the right arguments. The reward looks at the first call alone. */
import { drawing, pick } from '../draw.ts'
import { tool, type Example, type World } from '../example.ts'

const TOOLS = [
  tool('get_weather', 'Weather of a city', ['city']),
  tool('get_time', 'Time in a city', ['city']),
  tool('calculate', 'Work out a sum', ['expression']),
]
const CITIES = ['Paris', 'Rome', 'Madrid', 'Vienna', 'Athens', 'Oslo', 'Lima', 'Cairo']
/** The first of each is in the corpus of the model that ships, the others are not. */
const WEATHER = ['What is the weather in', 'Will I need an umbrella in', 'Is it raining in', 'How warm is it in']
const TIME = ['What time is it in', 'What does the clock say in', 'Which hour is it now in', 'How late is it in']

const words = (value: unknown): string => (typeof value === 'string' ? value.replace(/\s+/g, '') : '')

type Wanted = { name: string; argument: string; value: string }

/** 1: the tool and its argument are right. −0.5: the tool is. −1: neither, or no call. */
const worldOf = (wanted: Wanted): World => {
  let reward: number | null = null
  return {
    call(name, input) {
      const right = name === wanted.name
      const exact = right && words(input[wanted.argument]) === words(wanted.value)
      reward ??= exact ? 1 : right ? -0.5 : -1
      return Promise.resolve(
        exact ? 'done' : `error: ${right ? `unknown ${wanted.argument}` : `${name} cannot do that`}`,
      )
    },
    reward: () => Promise.resolve(reward ?? -1),
    end: () => Promise.resolve(),
  }
}

const draw = (seed: number, at: number): { ask: string; wanted: Wanted } => {
  const random = drawing(seed * 1_000 + at)
  const kind = random(3)
  if (kind === 2) {
    const [a, b] = [20 + random(80), 20 + random(80)]
    return {
      ask: `${random(2) === 0 ? 'Use the tool to work out' : 'With a tool, please add'} ${a} + ${b}.`,
      wanted: { name: 'calculate', argument: 'expression', value: `${a} + ${b}` },
    }
  }
  const city = pick(random, CITIES)
  const ask = `${pick(random, kind === 0 ? WEATHER : TIME)} ${city}?`
  return { ask, wanted: { name: kind === 0 ? 'get_weather' : 'get_time', argument: 'city', value: city } }
}

export const toolCall: Example = {
  name: 'tool-call',
  about: 'choose one of three tools and its argument',
  tasks: (seed, count) =>
    Array.from({ length: count }, (_, at) => {
      const { ask, wanted } = draw(seed, at)
      return {
        id: `tool-call ${seed} ${at}`,
        ask,
        tools: TOOLS,
        turns: 2,
        begin: () => Promise.resolve(worldOf(wanted)),
      }
    }),
}
