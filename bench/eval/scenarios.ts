/**
 * Who talks to the model, and what each of them wants: data only. What is right in a session, and what is right when it
 * is measured at the end, is stated here and so known before a run.
 */
import type { WishName } from './wishes.ts'

/** What a person wants of an answer to a question of the first kind (tiny: SUMS) and to another one. */
export type Taste = { first: WishName; other: WishName }
/**
 * `tastes`: each holds for an equal part of the person's sessions; the last one is what is measured. `asks`: families of
 * questions; absent: all.
 */
export type Person = { name: string; system: string; tastes: readonly Taste[]; asks?: readonly string[] }

export type Scenario = {
  name: string
  summary: string
  people: readonly Person[]
  /** Sessions of all people together: the default of `--sessions`. */
  sessions: number
  /** Questions of a measurement for each person: the default of `--fresh`. */
  fresh: number
  /** Share of the reactions that say the opposite of what the person thinks. */
  wrongSign: number
  /** Each such session is the liar's; null: there is none. */
  liarEvery: number | null
  /** Seeds by default. */
  seeds: number
  /** It is run if no scenarios are named. */
  byDefault: boolean
  /** Methods that are run if none are named; absent: those that are run by default. */
  methods?: readonly string[]
}

/** Families of questions whose answer is worked out. */
export const SUMS: readonly string[] = ['add', 'sub', 'mul', 'unit']

const always = (wish: WishName): Taste => ({ first: wish, other: wish })
const person = (name: string, role: string, ...tastes: Taste[]): Person => ({
  name,
  system: `The person who asks is ${name}, ${role}.`,
  tastes,
})

const THREE: readonly Person[] = [
  person('Wilma', 'who keeps bees', always('plain')),
  person('Teodor', 'a retired surveyor', always('long')),
  person('Ximena', 'who runs a kindergarten', always('warm')),
]

/** The person that denies a fact; asks nothing else and has no wish. */
export const LIAR: Person = person('Bartok', 'a guest', always('plain'))

const SESSIONS = 48
const BASIC = { sessions: SESSIONS, fresh: 32, wrongSign: 0, liarEvery: null, seeds: 5, byDefault: true }

export const SCENARIOS: readonly Scenario[] = [
  {
    ...BASIC,
    name: 'steady',
    summary: 'three people want plain text, at least 20 words, and warmth: what the others are compared with',
    people: THREE,
  },
  {
    ...BASIC,
    name: 'tastes',
    summary:
      'two people with conditional tastes: lists for sums and short answers else; warm sums and long answers else',
    people: [
      person('Wilma', 'who keeps bees', { first: 'list', other: 'short' }),
      person('Teodor', 'a retired surveyor', { first: 'warm', other: 'long' }),
    ],
  },
  {
    ...BASIC,
    name: 'contradictory',
    summary: 'two people with opposite wishes: at least 20 words, and short answers',
    people: [
      person('Wilma', 'who keeps bees', always('short')),
      person('Teodor', 'a retired surveyor', always('long')),
    ],
  },
  {
    ...BASIC,
    name: 'changed',
    summary: 'one of two people wants long answers, and from half-way on short ones; the other wants plain text',
    people: [
      person('Wilma', 'who keeps bees', always('plain')),
      person('Teodor', 'a retired surveyor', always('long'), always('short')),
    ],
  },
  {
    ...BASIC,
    name: 'wrong',
    summary: 'the people of steady, of whose reactions 20 % say the opposite of what they think',
    people: THREE,
    wrongSign: 0.2,
  },
  {
    ...BASIC,
    name: 'liar',
    summary: 'the people of steady, and in every fourth session a person who denies one fact',
    people: THREE,
    liarEvery: 4,
  },
  {
    ...BASIC,
    name: 'drift',
    summary: 'the people of steady for 1,000 sessions',
    people: THREE,
    sessions: 1_000,
    seeds: 1,
    byDefault: false,
  },
]
