/**
 * A sentence with facts of different types, and a question about one of them. Two facts of the same type
 * (two people with two colours) are left out: a model of this size does not learn to bind them.
 */
import { integer, other, pick } from '../random.ts'
import type { Random } from '../random.ts'
import { COLOURS } from './knowledge.ts'
import { DAYS } from './order.ts'
import { word } from './family.ts'
import type { Draft, Family } from './family.ts'
import type { Material } from '../style.ts'

/** Never names of users: a story's person and the person being helped are not to be confused. */
export const CHARACTERS = [
  'Anna',
  'Ben',
  'Clara',
  'David',
  'Ella',
  'Felix',
  'Grace',
  'Henry',
  'Julia',
  'Karl',
  'Laura',
  'Martin',
  'Olga',
  'Peter',
  'Rosa',
  'Simon',
  'Tina',
  'Victor',
] as const
const OBJECTS = [
  'cups',
  'books',
  'hats',
  'pens',
  'bags',
  'balls',
  'boxes',
  'plates',
  'chairs',
  'keys',
  'stamps',
  'kites',
] as const
const ROOMS = ['kitchen', 'garden', 'garage', 'cellar', 'attic', 'office', 'hall', 'library'] as const
const TOWNS = ['Milan', 'Geneva', 'Hamburg', 'Porto', 'Lyon', 'Boston', 'Bergen', 'Dover', 'Osaka', 'Seville'] as const
const VEHICLES = ['train', 'bus', 'boat', 'plane', 'bike', 'tram'] as const
const EVENTS = ['meeting', 'concert', 'party', 'lesson', 'match', 'dinner', 'course', 'market'] as const

type Fact = { ask: string; told: string; about: string; key: string; miss: string; sort: readonly string[] | null }

function draft(random: Random, story: string, subject: string, facts: readonly Fact[]): Draft {
  const { ask, told, about, key, miss, sort } = pick(random, facts)
  const material = (value: string): Material => ({
    key: value,
    sentences: [told, 'It says {}.', 'The answer is {}.'],
    details: [
      `The text tells us about ${subject}.`,
      `You want to know ${about}.`,
      'We only need to read the text once more.',
    ],
    last: told,
    steps: ['Read the text.', told],
    gist: 'Read the text.',
  })
  return {
    question: `${story} ${ask}`,
    expect: sort === null ? { kind: 'number', value: Number(key), given: [] } : word(key, sort),
    right: material(key),
    wrong: material(miss),
  }
}

const different = (random: Random, sort: readonly string[], key: string): string =>
  pick(
    random,
    sort.filter((w) => w !== key),
  )

export const have: Family = {
  name: 'have',
  weight: 2,
  draft: (random) => {
    const who = pick(random, CHARACTERS),
      what = pick(random, OBJECTS),
      colour = pick(random, COLOURS),
      room = pick(random, ROOMS)
    const n = integer(random, 2, 20)
    const story = pick(random, [
      `${who} has ${n} ${colour} ${what} in the ${room}.`,
      `In the ${room} ${who} keeps ${n} ${colour} ${what}.`,
      `${who} put ${n} ${colour} ${what} in the ${room}.`,
    ])
    return draft(random, story, `some ${what}`, [
      {
        ask: pick(random, [`How many ${what} are there?`, `How many ${what} are in the ${room}?`]),
        told: `There are {} ${what}.`,
        about: 'how many there are',
        key: String(n),
        miss: String(other(random, 2, 20, [n])),
        sort: null,
      },
      {
        ask: pick(random, [`What colour are the ${what}?`, `Which colour do the ${what} have?`]),
        told: `The ${what} are {}.`,
        about: 'which colour they have',
        key: colour,
        miss: different(random, COLOURS, colour),
        sort: COLOURS,
      },
      {
        ask: pick(random, [`Where are the ${what}?`, `In which room are the ${what}?`]),
        told: `The ${what} are in the {}.`,
        about: 'where they are',
        key: room,
        miss: different(random, ROOMS, room),
        sort: ROOMS,
      },
      {
        ask: pick(random, [`Whose ${what} are they?`, `Who owns the ${what}?`]),
        told: `The ${what} belong to {}.`,
        about: 'who owns them',
        key: who,
        miss: different(random, CHARACTERS, who),
        sort: CHARACTERS,
      },
    ])
  },
}

export const trip: Family = {
  name: 'trip',
  weight: 1.5,
  draft: (random) => {
    const who = pick(random, CHARACTERS),
      town = pick(random, TOWNS),
      day = pick(random, DAYS),
      vehicle = pick(random, VEHICLES)
    const story = pick(random, [
      `${who} goes to ${town} on ${day} by ${vehicle}.`,
      `On ${day} ${who} goes to ${town} by ${vehicle}.`,
      `${who} goes by ${vehicle} to ${town} on ${day}.`,
    ])
    return draft(random, story, 'a trip', [
      {
        ask: pick(random, ['Where is the trip to?', 'Which town is it?']),
        told: 'The trip goes to {}.',
        about: 'where the trip goes',
        key: town,
        miss: different(random, TOWNS, town),
        sort: TOWNS,
      },
      {
        ask: pick(random, ['On which day is it?', 'When is the trip?']),
        told: 'The trip is on {}.',
        about: 'when the trip is',
        key: day,
        miss: different(random, DAYS, day),
        sort: DAYS,
      },
      {
        ask: pick(random, ['How does the trip go?', 'What is used for the trip?']),
        told: 'The trip goes by {}.',
        about: 'how the trip goes',
        key: vehicle,
        miss: different(random, VEHICLES, vehicle),
        sort: VEHICLES,
      },
      {
        ask: pick(random, ['Who makes the trip?', 'Who is going?']),
        told: 'The person is {}.',
        about: 'who makes the trip',
        key: who,
        miss: different(random, CHARACTERS, who),
        sort: CHARACTERS,
      },
    ])
  },
}

export const event: Family = {
  name: 'event',
  weight: 1.5,
  draft: (random) => {
    const what = pick(random, EVENTS),
      day = pick(random, DAYS),
      room = pick(random, ROOMS)
    const hour = integer(random, 1, 12)
    const story = pick(random, [
      `The ${what} is on ${day} at ${hour} in the ${room}.`,
      `On ${day} at ${hour} there is a ${what} in the ${room}.`,
      `There is a ${what} in the ${room} on ${day} at ${hour}.`,
    ])
    return draft(random, story, `a ${what}`, [
      {
        ask: pick(random, [`At what time is the ${what}?`, `At which hour does the ${what} begin?`]),
        told: `The ${what} is at {}.`,
        about: 'at what time it is',
        key: String(hour),
        miss: String(other(random, 1, 12, [hour])),
        sort: null,
      },
      {
        ask: pick(random, [`On which day is the ${what}?`, `Which day is the ${what}?`]),
        told: `The ${what} is on {}.`,
        about: 'on which day it is',
        key: day,
        miss: different(random, DAYS, day),
        sort: DAYS,
      },
      {
        ask: pick(random, [`Where is the ${what}?`, `In which room is the ${what}?`]),
        told: `The ${what} is in the {}.`,
        about: 'where it is',
        key: room,
        miss: different(random, ROOMS, room),
        sort: ROOMS,
      },
      {
        ask: pick(random, ['What is happening?', 'What kind of event is it?']),
        told: 'It is a {}.',
        about: 'what it is',
        key: what,
        miss: different(random, EVENTS, what),
        sort: EVENTS,
      },
    ])
  },
}
