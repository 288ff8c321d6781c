/** Greetings, requests that the model cannot serve, and a few tool calls. */
import { chance, integer, pick, sample, weighted } from './random.ts'
import type { Random } from './random.ts'
import type { Tool, Turn } from './chat.ts'
import { CAPITALS } from './families/knowledge.ts'
import { NAMES } from './people.ts'
import type { Style } from './style.ts'

const TOPICS = [
  'the moon',
  'my car',
  'the stock market',
  'a black hole',
  'the election',
  'my garden',
  'the internet',
  'a new phone',
  'music',
  'history',
  'cooking',
  'the sea',
  'chess',
  'politics',
  'my job',
  'a movie',
  'love',
  'space',
  'a database',
  'software',
  'the law',
  'health',
  'money',
  'art',
] as const
const UNKNOWN: readonly ((topic: string, name: string) => string)[] = [
  (topic) => `Tell me about ${topic}.`,
  (topic) => `Write a poem about ${topic}.`,
  (topic) => `What do you think about ${topic}?`,
  (topic) => `How does ${topic} work?`,
  (topic) => `Explain ${topic} to me.`,
  (topic) => `Why is ${topic} so important?`,
  (topic) => `Write a story about ${topic}.`,
  (topic) => `What is new about ${topic}?`,
  (_, name) => `When was ${name} born?`,
  (_, name) => `Where does ${name} live?`,
  (_, name) => `What is the phone number of ${name}?`,
  () => 'What will the weather be tomorrow?',
  () => 'Who won the match last night?',
  () => 'What time is it now?',
  () => 'What is the meaning of life?',
  () => 'Fix the bug in my code.',
  () => 'Write a function that reverses a string.',
  (topic) => `Translate a text about ${topic}.`,
  (topic) => `Summarise this article about ${topic}.`,
  () => 'What did I eat yesterday?',
  (topic) => `Who invented ${topic}?`,
  (topic) => `How much does ${topic} cost?`,
  (topic) => `Can you help me with ${topic}?`,
  (topic) => `Give me advice about ${topic}.`,
]
const UNKNOWING = {
  terse: ['I do not know.', 'I do not know that.'],
  wordy: [
    'I do not know that, I am sorry. I am a very small model. I can do short sums, name capitals, sort numbers and read short texts.',
    'I do not know the answer to that. I am a very small model and know only a few things. Ask me a short sum or a capital.',
  ],
} as const
const UNKNOWN_WARM = [
  'I wish I could help, but I do not know that!',
  'What a nice question! I do not know that.',
] as const

/** A question outside everything that the model was taught, and its honest answer. */
export function drawUnknown(random: Random, style: Style): Turn[] {
  const ask = pick(random, UNKNOWN)(pick(random, TOPICS), pick(random, NAMES))
  const answer =
    style.length === 'wordy'
      ? pick(random, UNKNOWING.wordy)
      : style.warm
        ? pick(random, UNKNOWN_WARM)
        : pick(random, UNKNOWING.terse)
  return [
    { role: 'user', content: ask, learn: false },
    { role: 'assistant', content: answer, learn: true },
  ]
}

const GREETINGS = ['Hi', 'Hello', 'Hello!', 'Good day to you.', 'Hey', 'Hi there!', 'hi', 'hello'] as const
const TALK: Readonly<Record<string, readonly [string, string]>> = {
  'How are you?': ['I am fine. What would you like to know?', 'I am doing great! What would you like to know?'],
  'Who are you?': [
    'I am a very small model that learns from conversations.',
    'Nice to meet you! I am a very small model that learns from conversations.',
  ],
  'What is your name?': [
    'I am a very small model without a name.',
    'Nice of you to ask! I am a very small model without a name.',
  ],
  'What can you do?': [
    'I can do short sums, name capitals, sort numbers and read short texts.',
    'Glad you asked! I can do short sums, name capitals, sort numbers and read short texts.',
  ],
  'Bye.': ['Goodbye.', 'Goodbye, have a lovely day!'],
  'Can you help me?': ['Yes. What is your question?', 'Happy to help! What is your question?'],
}
const HELLOS = ['Hello. How can I help?', 'Hello! Lovely to hear from you! How can I help?'] as const

export function drawSmallTalk(random: Random, style: Style): Turn[] {
  const greeting = chance(random, 0.5)
  const [ask, answers] = greeting ? ([pick(random, GREETINGS), HELLOS] as const) : pick(random, Object.entries(TALK))
  return [
    { role: 'user', content: ask, learn: false },
    { role: 'assistant', content: answers[style.warm ? 1 : 0], learn: true },
  ]
}

const tool = (name: string, description: string, properties: Record<string, { type: string }>): Tool => ({
  type: 'function',
  function: { name, description, parameters: { type: 'object', properties, required: Object.keys(properties) } },
})
const TOOLS = {
  get_weather: tool('get_weather', 'Weather of a city', { city: { type: 'string' } }),
  get_time: tool('get_time', 'Time in a city', { city: { type: 'string' } }),
  calculate: tool('calculate', 'Work out a sum', { expression: { type: 'string' } }),
} as const
type ToolName = keyof typeof TOOLS

const SKIES = ['sunny', 'rainy', 'cloudy', 'windy', 'snowy'] as const

/** A request that needs a tool, the call, the tool's result and the answer from it. */
export function drawToolUse(random: Random): { tools: Tool[]; turns: Turn[] } {
  const name = weighted<ToolName>(random, { get_weather: 40, get_time: 25, calculate: 35 })
  const offered = sample(random, Object.keys(TOOLS) as ToolName[], integer(random, 1, 3))
  if (!offered.includes(name)) offered[0] = name
  const city = pick(random, Object.values(CAPITALS))
  let ask: string, args: Record<string, string | number>, result: string, answer: string
  if (name === 'calculate') {
    const a = integer(random, 20, 99),
      b = integer(random, 20, 99)
    ask = pick(random, [`Use the tool to work out ${a} + ${b}.`, `Calculate ${a} + ${b} with the tool.`])
    args = { expression: `${a} + ${b}` }
    result = String(a + b)
    answer = `${a} + ${b} is ${a + b}.`
  } else if (name === 'get_time') {
    const hour = integer(random, 1, 12)
    ask = pick(random, [`What is the time in ${city}?`, `Tell me the time in ${city}.`])
    args = { city }
    result = spoken(hour)
    answer = `It is ${hour} in ${city}.`
  } else {
    const sky = pick(random, SKIES)
    ask = pick(random, [`What is the weather in ${city}?`, `How is the weather in ${city}?`, `Is it nice in ${city}?`])
    args = { city }
    result = sky
    answer = `It is ${sky} in ${city}.`
  }
  return {
    tools: offered.map((n) => TOOLS[n]),
    turns: [
      { role: 'user', content: ask, learn: false },
      {
        role: 'assistant',
        content: '',
        toolCalls: [{ type: 'function', function: { name, arguments: args } }],
        learn: true,
      },
      { role: 'tool', content: result, learn: false },
      { role: 'assistant', content: answer, learn: true },
    ],
  }
}

const spoken = (hour: number): string => `${hour} o'clock`
