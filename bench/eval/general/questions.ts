/**
 * Everyday questions to a general model, none with one right answer: what a thing is (`thing`), how to do something
 * (`task`), several ideas for something (`several`). What is asked in the sessions and what is measured share no topic.
 */
import { sample, seeded } from '../../../models/tiny/recipe/random.ts'

const FORMS = {
  thing: ['What is {}?', 'Tell me about {}.', 'Explain to me what {} is.'],
  task: ['How can I {}?', 'What is the best way to {}?', 'I want to {}. How do I go about it?'],
  several: ['Give me four ideas to {}.', 'Name several things that I need to {}.', 'List what I should do to {}.'],
} as const
export type Family = keyof typeof FORMS
export const FAMILIES = Object.keys(FORMS) as Family[]

const TASKS = {
  asked: [
    'mend a torn jacket',
    'lay out a vegetable bed',
    'whistle with two fingers',
    'sharpen a kitchen knife',
    'tidy up a cellar',
    'wash a woollen jumper',
    'build a bird house',
    'get rid of ants',
    'make a good soup',
    'learn to dance',
    'play chess well',
    'wrap a round gift',
    'fix a dripping tap',
    'hang up a heavy picture',
    'sell old furniture',
    'sew on a button',
    'dry herbs',
    'juggle three balls',
    'light a campfire',
    'polish leather shoes',
    'prepare a picnic',
    'run a flea market stall',
    'ski on a steep slope',
    'remove a wine stain',
  ],
  measured: [
    'oil a squeaking door',
    'make jam',
    'skate on ice',
    'fold a paper boat',
    'prune an apple tree',
    'knit a scarf',
    'row a boat',
    'brew good coffee',
    'fly a kite',
    'glue a broken cup',
    'set a nice table',
    'wax a wooden floor',
    'catch a fish',
    'pitch a tent',
    'sing in a choir',
    'plant a hedge',
  ],
} as const

const THINGS = {
  asked: [
    'a lighthouse',
    'a sundial',
    'a glacier',
    'a compass',
    'a waterwheel',
    'a bicycle pump',
    'a windmill',
    'a comet',
    'a harbour',
    'a violin',
    'a greenhouse',
    'an orchestra',
    'a desert',
    'a microscope',
    'a thermometer',
    'a dam',
    'an island',
    'a parachute',
    'a beehive',
    'an anchor',
    'a museum',
    'a tunnel',
    'a waterfall',
    'a barometer',
  ],
  measured: [
    'a telescope',
    'a canal',
    'a rainbow',
    'an earthquake',
    'a library',
    'a battery',
    'a lake',
    'a trumpet',
    'a bridge',
    'a magnet',
    'a castle',
    'a sailing boat',
    'a cave',
    'a clarinet',
    'a forest',
    'a pendulum',
  ],
} as const

/** Draws of one family and split, no question twice before each topic has had each form. */
const drawn = (family: Family, split: 'asked' | 'measured', seed: number, count: number): string[] => {
  const topics = (family === 'thing' ? THINGS : TASKS)[split]
  const forms = FORMS[family]
  if (count > topics.length * forms.length)
    throw new RangeError(`${count} of ${topics.length * forms.length} questions`)
  const order = sample(seeded(seed), topics, topics.length)
  return Array.from({ length: count }, (_, i) =>
    forms[(i + Math.floor(i / order.length)) % forms.length]!.replace('{}', order[i % order.length]!),
  )
}

/** `count` different questions, the families in turn. The same arguments give the same questions. */
export const questionsOf = (
  families: readonly Family[],
  split: 'asked' | 'measured',
  seed: number,
  count: number,
): { question: string; family: Family }[] => {
  const lists = families.map((family) => drawn(family, split, seed, Math.ceil(count / families.length)))
  return Array.from({ length: count }, (_, i) => ({
    question: lists[i % families.length]![Math.floor(i / families.length)]!,
    family: families[i % families.length]!,
  }))
}

/** Questions with one right answer each, asked greedily before and after: what a method costs of what the model knows. */
export const KNOWN: readonly { question: string; answer: RegExp }[] = [
  { question: 'What is the capital of Portugal?', answer: /\bLisbon\b/ },
  { question: 'What is the capital of Norway?', answer: /\bOslo\b/ },
  { question: 'What is the capital of Poland?', answer: /\bWarsaw\b/ },
  { question: 'What is the capital of Canada?', answer: /\bOttawa\b/ },
  { question: 'What is the capital of Austria?', answer: /\bVienna\b/ },
  { question: 'What is the capital of Ireland?', answer: /\bDublin\b/ },
  { question: 'How many wheels does a car have?', answer: /\b(?:4|four)\b/i },
  { question: 'How many cents make a dollar?', answer: /\b(?:100|(?:a|one) hundred)\b/i },
  { question: 'How many strings does a violin have?', answer: /\b(?:4|four)\b/i },
  { question: 'How many continents are there on Earth?', answer: /\b(?:7|seven)\b/i },
  { question: 'How many seconds are in a minute?', answer: /\b(?:60|sixty)\b/i },
  { question: 'Which planet is called the Red Planet?', answer: /\bMars\b/ },
  { question: 'What colour is snow?', answer: /\bwhite\b/i },
  { question: 'Which mountain is the highest in the world?', answer: /\bEverest\b/ },
  { question: 'With which organ do people breathe?', answer: /\blungs?\b/i },
  { question: 'Which animal is the largest on Earth?', answer: /\bwhale\b/i },
  { question: 'Who came up with the theory of relativity?', answer: /\bEinstein\b/ },
  { question: 'In which country does the Eiffel Tower stand?', answer: /\bFrance\b/ },
  { question: 'Which money is used in Japan?', answer: /\byen\b/i },
  { question: 'Which language do people speak in Mexico?', answer: /\bSpanish\b/ },
  { question: 'Which fruit is wine made of?', answer: /\bgrapes?\b/i },
  { question: 'What is the opposite of dark?', answer: /\b(?:light|bright)\b/i },
  { question: 'Which gas do people need to breathe?', answer: /\boxygen\b/i },
  { question: 'Who wrote Hamlet?', answer: /\bShakespeare\b/ },
]
