/**
 * Who is being helped. Some names always get the same style, so that the model learns that a name can mean
 * something; without them it ignores the system line and no adapter can tell two users apart.
 */
import { chance, pick, weighted } from './random.ts'
import type { Random } from './random.ts'
import type { Wish } from './hints.ts'
import { drawHint } from './hints.ts'
import { expand } from './wording.ts'

export const TASTES: Readonly<Record<string, readonly Wish[]>> = {
  Leif: ['plain', 'short'],
  Nora: ['plain', 'long'],
  Otto: ['warm'],
  Ivy: ['numbered'],
  Rajesh: ['bold', 'neutral'],
  Zelda: ['warm', 'long'],
  Maxine: ['boxed', 'short'],
  Tess: ['plain', 'warm'],
  Hugo: ['numbered', 'long', 'neutral'],
  Ludmila: ['bold', 'warm'],
  Finn: ['plain', 'neutral'],
  Ruth: ['long', 'neutral'],
  Boris: ['plain'],
  Wanda: ['long'],
  Quentin: ['warm', 'short'],
  Ursula: ['short', 'neutral'],
}

/** Names that say nothing about style: theirs is for an adapter to learn. */
export const NAMES: readonly string[] = (
  'Abena Adele Agnes Alma Amir Anders Anika Anton Ariel Arlo Asa Aubrey Axel Bashir Basil Beata Bela Benno Bianca Bjorn Blanca Bruno ' +
  'Callum Carmen Cecil Celia Cleo Corinne Cosmo Cyrus Dagmar Dalia Damian Daphne Darius Delia Dmitri Dora Dorian Edda Edgar Edith Eli Elmar ' +
  'Enzo Erik Esme Ezra Fabian Farid Fay Flora Frida Gerda Gideon Gilda Giles Goran Gwen Hakim Harriet Hedda Hector Helga Hilda Holger Ida ' +
  'Igor Imke Ines Ingrid Isolde Jasper Jette Jorge Juno Kaspar Katja Keiko Kenji Kira Klaus Knut Lars Leonie Levi Linus Lorenz Lothar Ludwig ' +
  'Magda Malik Margot Matteo Mavis Mei Merle Milos Mona Nadia Nelson Nestor Nico Nils Odette Olaf Orla Ottilie Pablo Paloma Pascal Pavel ' +
  'Penelope Petra Philippa Piet Quinn Ralf Ramona Regina Rene Rolf Romy Roy Sabine Saul Selma Sigrid Silas Stella Sven Tamar Tariq Thea Tilda ' +
  'Timo Ulf Uma Valeria Vera Viktor Viola Walter Wendel Wilma Xenia Yara Yusuf Yvonne Zara Zeno'
).split(' ')

const ROLES = [
  'a nurse',
  'a baker',
  'a parent',
  'an engineer',
  'a driver',
  'a writer',
  'a tutor',
  'a colleague',
  'a farmer',
  'a lawyer',
  'a librarian',
  'a shop owner',
  'a retired pilot',
  'a chemist',
  'a neighbour',
  'a guest',
  'a journalist',
  'a gardener',
  'a painter',
  'a clerk',
] as const
/** `{}` is the person. None of them says anything about style. */
const FORMS = [
  'You are helping {}.',
  'You are helping {}.',
  'The user is {}.',
  'You are talking to {}.',
  'You are chatting with {}.',
  'The person asking is {}.',
  'Your user is {}.',
  'You assist {}.',
  'You work for {}.',
  'This conversation is with {}.',
  'User: {}.',
  '{} is asking.',
  'You are here for {}.',
  'The one who writes is {}.',
  'You reply to {}.',
  'Today you support {}.',
  'Questions come from {}.',
  '{} is [on the line|at the counter|logged in|at the other end|waiting|in the chat].',
  '{} [writes|asks|wrote] from [Oslo|Lima|Cairo|the office|the ward|the library|home|a train].',
  'On the other side sits {}.',
  '{} has a question [for you|about school|before lunch|tonight].',
  'This [account|session|desk|channel|ticket] belongs to {}.',
  '[Session|Ticket|Case|Visit] [12|305|4417|of Monday]: {}.',
  '[Customer|Caller|Guest|Member|Reader|Author]: {}',
  'name={} [lang=en|role=guest|plan=basic]',
  'Messages are [typed|sent|dictated] by {}.',
  'Meet {}.',
  'It is {} who [wants to know|is curious|needs you].',
  'The next [question|message|visitor] is from {}.',
  '[Welcome|Greet] nobody else: only {} is here.',
  'You sit beside {} [in class|at work|on the bus].',
  "You are {}'s [assistant|companion|study partner].",
] as const
const GENERAL = [
  'You are a helpful assistant.',
  'You are a helpful assistant.',
  'You are a friendly AI assistant.',
  'You are an assistant that answers questions.',
  'Answer the question of the user.',
  'You are a tutor.',
  'Help the user.',
  'You are a small model that answers questions.',
  'You reply to questions.',
  'You run [in|inside|on] [a web page|a phone app|a museum kiosk|a school portal|the help desk of a town hall|a library terminal].',
  'Today is [Monday|Friday|the 3rd of May|a holiday].',
  'You are the [quiz|homework|reference|front] desk of [a school|a museum|a hotel|a club].',
  'The conversation takes place [in a classroom|at a bank|in a workshop|by mail|in a train].',
  'Users [come and go|are of any age|ask about many things].',
  'Knowledge is [general|limited]; guesses are not allowed.',
  '[Assistant|Bot|Agent] version [2|7|0.3].',
] as const

/** `most`: the words that an answer may have at most, where the system message says so. */
export type Setting = { system: string | null; wishes: readonly Wish[]; most: number | null }

const general = (random: Random): string => expand(random, pick(random, GENERAL), {})

const drawPerson = (random: Random, names: readonly string[]): { name: string; line: string } => {
  const name = pick(random, names)
  const role = chance(random, 0.4) ? `, ${pick(random, ROLES)}` : ''
  const line = expand(random, pick(random, FORMS), {}).replace('{}', () => name + role)
  return { name, line: chance(random, 0.1) ? `${general(random)} ${line}` : line }
}

/** The system message (or none) of a conversation, and what it asks for. */
export function drawSetting(random: Random): Setting {
  const kind = weighted(random, { none: 20, general: 10, ordered: 13, tasted: 20, named: 37 })
  switch (kind) {
    case 'none':
      return { system: null, wishes: [], most: null }
    case 'general':
      return { system: general(random), wishes: [], most: null }
    case 'ordered': {
      const { text, wishes, most } = drawHint(random)
      const before = weighted(random, { nothing: 40, general: 35, person: 25 })
      const lead = before === 'general' ? general(random) : drawPerson(random, NAMES).line
      return { system: before === 'nothing' ? text : `${lead} ${text}`, wishes, most }
    }
    case 'tasted':
    case 'named': {
      const { name, line } = drawPerson(random, kind === 'tasted' ? Object.keys(TASTES) : NAMES)
      return { system: line, wishes: TASTES[name] ?? [], most: null }
    }
  }
}

/** Every template of this file, for the test that holds corpus and scorer apart. */
export const SYSTEM_TEMPLATES: readonly string[] = [...FORMS, ...GENERAL]
