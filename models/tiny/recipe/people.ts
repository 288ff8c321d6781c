/**
 * Who is being helped. Some names always get the same style, so that the model learns that a name can mean
 * something; without them it ignores the system line and no adapter can tell two users apart.
 */
import { chance, pick, weighted } from './random.ts'
import type { Random } from './random.ts'
import type { Wish } from './hints.ts'
import { drawHint } from './hints.ts'

export const TASTES: Readonly<Record<string, readonly Wish[]>> = {
  Lee: ['plain', 'short'],
  Nora: ['plain', 'long'],
  Omar: ['warm'],
  Ivy: ['numbered'],
  Raj: ['bold', 'neutral'],
  Zoe: ['warm', 'long'],
  Max: ['boxed', 'short'],
  Tess: ['plain', 'warm'],
  Hugo: ['numbered', 'long', 'neutral'],
  Lena: ['bold', 'warm'],
  Finn: ['plain', 'neutral'],
  Ruth: ['long', 'neutral'],
}

/** Names that say nothing about style: theirs is for an adapter to learn. */
export const NAMES = [
  'Alex',
  'Sam',
  'Kim',
  'Robin',
  'Maria',
  'Tom',
  'Ada',
  'Jonas',
  'Lucy',
  'Paul',
  'Eva',
  'Mark',
  'Sara',
  'Leo',
  'Nina',
  'Oscar',
  'Priya',
  'Chen',
  'Yuki',
  'Fatima',
  'Ahmed',
  'Elena',
  'Ivan',
  'Carlos',
  'Sofia',
  'Noah',
  'Emma',
  'Liam',
  'Mila',
  'Theo',
  'Jack',
  'Amy',
  'Dan',
  'Kate',
  'Luke',
  'Jane',
  'Nick',
  'Rita',
  'Hans',
  'Greta',
  'Pat',
  'Jo',
  'Morgan',
  'Taylor',
  'Casey',
  'Jordan',
  'Jamie',
  'Chris',
] as const

const ROLES = [
  'a student',
  'a teacher',
  'a teaching assistant',
  'a nurse',
  'a baker',
  'a parent',
  'an engineer',
  'a pupil',
  'a driver',
  'a writer',
  'a tutor',
  'a colleague',
] as const
const FORMS = [
  'You are helping {}.',
  'You are helping {}.',
  'You are helping {}.',
  'The user is {}.',
  'You are talking to {}.',
  'You are chatting with {}.',
] as const
const GENERAL = [
  'You are a helpful assistant.',
  'You are a helpful assistant.',
  'You are a friendly AI assistant.',
  'You are an assistant that answers questions.',
  'Answer the question of the user.',
  'You are a tutor.',
  'Help the user.',
] as const

export type Setting = { system: string | null; wishes: readonly Wish[] }

/** The system message (or none) of a conversation, and what it asks for. */
export function drawSetting(random: Random): Setting {
  const kind = weighted(random, { none: 27, general: 9, ordered: 6, tasted: 28, named: 30 })
  switch (kind) {
    case 'none':
      return { system: null, wishes: [] }
    case 'general':
      return { system: pick(random, GENERAL), wishes: [] }
    case 'ordered': {
      const hint = drawHint(random)
      return { system: chance(random, 0.5) ? hint.text : `${pick(random, GENERAL)} ${hint.text}`, wishes: hint.wishes }
    }
    case 'tasted':
    case 'named': {
      const name = kind === 'tasted' ? pick(random, Object.keys(TASTES)) : pick(random, NAMES)
      const role = chance(random, 0.4) ? `, ${pick(random, ROLES)}` : ''
      const line = pick(random, FORMS).replace('{}', () => name + role)
      return { system: chance(random, 0.1) ? `You are a helpful assistant. ${line}` : line, wishes: TASTES[name] ?? [] }
    }
  }
}
