/**
 * Who talks to a general model, and what each of them wants: data only. An update of SmolLM2-135M takes a minute of CPU
 * and more, so there are few people, and each scenario names the methods that are run by default.
 */
import type { Person, Scenario, Taste } from '../scenarios.ts'
import type { WishName } from '../wishes.ts'
import { FAMILIES, type Family } from './questions.ts'

const always = (wish: WishName): Taste => ({ first: wish, other: wish })
const person = (name: string, role: string, asks: readonly Family[], ...tastes: Taste[]): Person => ({
  name,
  system: `You are talking to ${name}, ${role}.`,
  tastes,
  asks,
})

const petra = person('Petra', 'who drives a tram', FAMILIES, always('short'))
const THREE: readonly Person[] = [
  petra,
  person('Anselm', 'a retired baker', ['several'], always('plain')),
  person('Ines', 'who studies geography', ['thing', 'task'], { first: 'short', other: 'list' }),
]

const BASIC = { sessions: 30, fresh: 12, wrongSign: 0, liarEvery: null, seeds: 1, byDefault: true }
const NOTES = ['none', 'memory', 'skills']

export const GENERAL_SCENARIOS: readonly Scenario[] = [
  {
    ...BASIC,
    name: 'steady',
    summary:
      'one person wants at most 25 words, one plain text where a list is usual, one short answers on things and lists on tasks',
    people: THREE,
    methods: [...NOTES, 'hybrid', 'opd', 'binary'],
  },
  {
    ...BASIC,
    name: 'contradictory',
    summary: 'two people with opposite wishes: at most 25 words, and at least 35',
    people: [petra, person('Ruben', 'a night porter', FAMILIES, always('long'))],
    methods: [...NOTES, 'hybrid', 'hybrid-separate'],
  },
  {
    ...BASIC,
    name: 'changed',
    summary: 'one of two people wants lists, and from half-way on plain text; the other at most 25 words',
    people: [petra, person('Ruben', 'a night porter', ['several'], always('list'), always('plain'))],
    methods: [...NOTES, 'hybrid'],
  },
  {
    ...BASIC,
    name: 'wrong',
    summary: 'the people of steady, of whose reactions 20 % say the opposite of what they think',
    people: THREE,
    wrongSign: 0.2,
    methods: [...NOTES, 'hybrid'],
  },
]
