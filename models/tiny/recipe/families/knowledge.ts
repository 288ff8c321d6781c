/** Small facts to remember: capitals, opposites, animals, colours. */
import { chance, pick } from '../random.ts'
import { word } from './family.ts'
import type { Draft, Family } from './family.ts'
import type { Material } from '../style.ts'

export const CAPITALS: Readonly<Record<string, string>> = {
  France: 'Paris',
  Italy: 'Rome',
  Spain: 'Madrid',
  Germany: 'Berlin',
  Austria: 'Vienna',
  Greece: 'Athens',
  Portugal: 'Lisbon',
  Norway: 'Oslo',
  Sweden: 'Stockholm',
  Finland: 'Helsinki',
  Denmark: 'Copenhagen',
  Poland: 'Warsaw',
  Hungary: 'Budapest',
  Ireland: 'Dublin',
  England: 'London',
  Scotland: 'Edinburgh',
  Russia: 'Moscow',
  Turkey: 'Ankara',
  Egypt: 'Cairo',
  Kenya: 'Nairobi',
  Ghana: 'Accra',
  Japan: 'Tokyo',
  China: 'Beijing',
  Thailand: 'Bangkok',
  Vietnam: 'Hanoi',
  Nepal: 'Kathmandu',
  Iran: 'Tehran',
  Iraq: 'Baghdad',
  Canada: 'Ottawa',
  Cuba: 'Havana',
  Peru: 'Lima',
  Chile: 'Santiago',
  Brazil: 'Brasilia',
  Australia: 'Canberra',
  Iceland: 'Reykjavik',
  Belgium: 'Brussels',
}
const CITIES = Object.values(CAPITALS)

const city = (country: string, key: string): Material => ({
  key,
  sentences: [`The capital of ${country} is {}.`, `It is {}.`, `${country} has the capital {}.`],
  details: [
    `This is a question about ${country}.`,
    'A capital is the city where a country has its government.',
    `We look for the capital of ${country}.`,
  ],
  last: `The capital of ${country} is {}.`,
  steps: [`The country is ${country}.`, 'Its capital is {}.'],
  gist: `The country is ${country}.`,
})

export const capital: Family = {
  name: 'capital',
  weight: 1.5,
  draft: (random): Draft => {
    const country = pick(random, Object.keys(CAPITALS))
    const key = CAPITALS[country]!
    return {
      question: pick(random, [
        `What is the capital of ${country}?`,
        `Which city is the capital of ${country}?`,
        `Name the capital of ${country}.`,
        `Tell me the capital of ${country}.`,
        `What is ${country}'s capital city?`,
      ]),
      expect: word(key, CITIES),
      right: city(country, key),
      wrong: city(
        country,
        pick(
          random,
          CITIES.filter((c) => c !== key),
        ),
      ),
    }
  },
}

const PAIRS: readonly (readonly [string, string])[] = [
  ['hot', 'cold'],
  ['big', 'small'],
  ['fast', 'slow'],
  ['wet', 'dry'],
  ['hard', 'soft'],
  ['loud', 'quiet'],
  ['light', 'dark'],
  ['old', 'young'],
  ['high', 'low'],
  ['thick', 'thin'],
  ['rich', 'poor'],
  ['empty', 'full'],
  ['open', 'closed'],
  ['early', 'late'],
  ['near', 'far'],
  ['tall', 'short'],
  ['clean', 'dirty'],
  ['strong', 'weak'],
  ['sharp', 'blunt'],
  ['deep', 'shallow'],
  ['inside', 'outside'],
  ['north', 'south'],
  ['win', 'lose'],
  ['push', 'pull'],
  ['smooth', 'rough'],
  ['wide', 'narrow'],
  ['summer', 'winter'],
  ['buy', 'sell'],
  ['asleep', 'awake'],
  ['brave', 'afraid'],
]
const PAIRED = PAIRS.flat()

const contrast = (from: string, key: string): Material => ({
  key,
  sentences: [`The opposite of ${from} is {}.`, 'It is {}.', 'The opposite is {}.'],
  details: [
    `This is a question about the word ${from}.`,
    'An opposite is a word that means the reverse.',
    `We look for the reverse of ${from}.`,
  ],
  last: `The opposite of ${from} is {}.`,
  steps: [`The word is ${from}.`, 'Its opposite is {}.'],
  gist: `The word is ${from}.`,
})

export const opposite: Family = {
  name: 'opposite',
  weight: 1.4,
  draft: (random): Draft => {
    const pair = pick(random, PAIRS)
    const [from, key] = chance(random, 0.5) ? pair : [pair[1], pair[0]]
    return {
      question: pick(random, [
        `What is the opposite of ${from}?`,
        `Name the opposite of ${from}.`,
        `Give me the opposite of ${from}.`,
        `Which word means the opposite of ${from}?`,
        `Tell me the opposite of ${from}.`,
      ]),
      expect: word(key, PAIRED, [from]),
      right: contrast(from, key),
      wrong: contrast(
        from,
        pick(
          random,
          PAIRED.filter((w) => w !== key && w !== from),
        ),
      ),
    }
  },
}

const YOUNG: Readonly<Record<string, string>> = {
  dog: 'puppy',
  cat: 'kitten',
  cow: 'calf',
  sheep: 'lamb',
  horse: 'foal',
  pig: 'piglet',
  hen: 'chick',
  duck: 'duckling',
  bear: 'cub',
  deer: 'fawn',
  goose: 'gosling',
  swan: 'cygnet',
  frog: 'tadpole',
  kangaroo: 'joey',
  hare: 'leveret',
}
const HOMES: Readonly<Record<string, string>> = {
  bee: 'hive',
  blackbird: 'nest',
  dog: 'kennel',
  spider: 'web',
  horse: 'stable',
  rabbit: 'burrow',
  lion: 'den',
  pig: 'sty',
  hen: 'coop',
  beaver: 'lodge',
  snail: 'shell',
}
const ANIMAL_WORDS = [...Object.values(YOUNG), ...Object.values(HOMES)]

const called = (animal: string, what: string, key: string): Material => ({
  key,
  sentences: [
    `The ${what} of a ${animal} is called a {}.`,
    'It is called a {}.',
    `People say {} for the ${what} of a ${animal}.`,
  ],
  details: [
    `This is a question about the ${animal}.`,
    `We look for the name of its ${what}.`,
    'Many animals have a special word for this.',
  ],
  last: `The ${what} of a ${animal} is called a {}.`,
  steps: [`The animal is the ${animal}.`, `Its ${what} is called a {}.`],
  gist: `The animal is the ${animal}.`,
})

export const animal: Family = {
  name: 'animal',
  weight: 1.4,
  draft: (random): Draft => {
    const young = chance(random, 0.58)
    const table = young ? YOUNG : HOMES
    const beast = pick(random, Object.keys(table))
    const key = table[beast]!
    const what = young ? 'young' : 'home'
    const miss = pick(
      random,
      ANIMAL_WORDS.filter((w) => w !== key),
    )
    return {
      question: pick(
        random,
        young
          ? [
              `What is a young ${beast} called?`,
              `What do you call a young ${beast}?`,
              `What is the young of a ${beast} called?`,
              `Name the young of a ${beast}.`,
              `What is the word for a baby ${beast}?`,
            ]
          : [
              `What is the home of a ${beast} called?`,
              `What do you call the home of a ${beast}?`,
              `Where does a ${beast} live?`,
              `Name the home of a ${beast}.`,
              `What is the word for the home of a ${beast}?`,
            ],
      ),
      expect: word(key, ANIMAL_WORDS),
      right: called(beast, what, key),
      wrong: called(beast, what, miss),
    }
  },
}

export const COLOURS = [
  'red',
  'blue',
  'green',
  'yellow',
  'white',
  'black',
  'brown',
  'grey',
  'pink',
  'orange',
  'purple',
] as const
const THINGS: Readonly<Record<string, (typeof COLOURS)[number]>> = {
  banana: 'yellow',
  canary: 'yellow',
  tomato: 'red',
  strawberry: 'red',
  snowman: 'white',
  swan: 'white',
  crow: 'black',
  tyre: 'black',
  frog: 'green',
  cucumber: 'green',
  carrot: 'orange',
  pumpkin: 'orange',
  bear: 'brown',
  chestnut: 'brown',
  mouse: 'grey',
  flamingo: 'pink',
  sapphire: 'blue',
  lavender: 'purple',
}

const shade = (thing: string, key: string): Material => ({
  key,
  sentences: [`A ${thing} is {}.`, `The colour of a ${thing} is {}.`, 'It is {}.'],
  details: [
    `This is a question about the colour of a ${thing}.`,
    `Think of how a ${thing} looks.`,
    'We name the colour that most people would say.',
  ],
  last: `A ${thing} is {}.`,
  steps: [`Think of a ${thing}.`, 'Its colour is {}.'],
  gist: `Think of a ${thing}.`,
})

export const colour: Family = {
  name: 'colour',
  weight: 1,
  draft: (random): Draft => {
    const thing = pick(random, Object.keys(THINGS))
    const key = THINGS[thing]!
    return {
      question: pick(random, [
        `What colour is a ${thing}?`,
        `Which colour is a ${thing}?`,
        `What is the colour of a ${thing}?`,
        `Name the colour of a ${thing}.`,
        `Tell me the colour of a ${thing}.`,
        `Which colour does a ${thing} have?`,
      ]),
      expect: word(key, COLOURS),
      right: shade(thing, key),
      wrong: shade(
        thing,
        pick(
          random,
          COLOURS.filter((c) => c !== key),
        ),
      ),
    }
  },
}
