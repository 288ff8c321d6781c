/**
 * Wishes about style, as a user, a judge or an operator may put them: each wording moves one dimension and
 * leaves the others as they are. Positive wordings ("plain sentences") as well as negations ("no lists"),
 * because both will be said.
 */
import { chance, pick, sample } from './random.ts'
import type { Random } from './random.ts'
import type { Style } from './style.ts'

export type Wish = 'plain' | 'bold' | 'numbered' | 'boxed' | 'long' | 'short' | 'warm' | 'neutral'

export const HINTS: Readonly<Record<Wish, readonly string[]>> = {
  plain: [
    'Answer in one plain paragraph.',
    'Use plain sentences.',
    'Write plain text.',
    'Plain text, please.',
    'Use simple plain text only.',
    'Write it as ordinary prose.',
    'The user wants plain sentences.',
    'Keep the formatting simple.',
    'Write in flowing prose.',
    'Give the answer as running text.',
    'Write one plain paragraph in simple sentences.',
    'No bold, no lists, no boxes.',
    'Without any formatting.',
    'Do not use bold or lists.',
    'Answer without markdown.',
    'The user prefers plain text without formatting.',
    'One plain paragraph.',
    'Answer in plain prose.',
    'Answer in plain text.',
    'Explain it clearly in simple words.',
    'Write normal sentences.',
    'Reply in plain text.',
  ],
  numbered: [
    'Use a numbered list.',
    'Answer as numbered steps.',
    'Number the steps.',
    'Show it as a numbered list.',
    'Write it as a list.',
    'Step by step, numbered.',
    'Give a list of steps.',
    'The user wants a numbered list.',
    'Make it a list with numbers.',
    'List the steps.',
    'Answer with a list.',
    'Answer as a list.',
  ],
  bold: [
    'Put the answer in bold.',
    'Use bold for the answer.',
    'Show the answer in bold.',
    'Make the answer bold.',
    'The user wants the answer in bold.',
    'Write the result in bold letters.',
    'Highlight the answer in bold.',
    'Use bold text.',
  ],
  boxed: [
    'Put the answer in a box.',
    'Use \\boxed for the answer.',
    'Box the final answer.',
    'Show the result in a box.',
    'The user wants the answer in a box.',
    'Write the result inside \\boxed{}.',
    'Give a boxed answer.',
  ],
  long: [
    'Answer in at least 20 words.',
    'Explain in several sentences.',
    'Give a full explanation.',
    'Write a longer answer.',
    'Explain in detail.',
    'Give a detailed answer of several sentences.',
    'Take your time and explain fully.',
    'Use at least 20 words.',
    'Write at least 25 words.',
    'Use more than 30 words.',
    'The user wants a longer explanation.',
    'Say more about it.',
    'Explain how you get there.',
    'Write a long and detailed answer.',
    'Give a complete answer in full sentences.',
    'Explain your thinking in four sentences.',
    'Be thorough.',
    'Write several full sentences.',
    'A longer answer with an explanation.',
    'Answer at length.',
    'Go into detail.',
    'Answer in full detail with several sentences.',
    'Write more words.',
    'Use at least twenty words.',
  ],
  short: [
    'Keep it short.',
    'Be brief.',
    'Answer briefly.',
    'Just the answer.',
    'Only the result.',
    'In one word if you can.',
    'The user wants a short answer.',
    'Short, please.',
    'As short as you can.',
    'Use few words.',
    'Give a short answer.',
    'No explanation.',
    'Be concise.',
  ],
  warm: [
    'Be warm and friendly.',
    'Add a kind word.',
    'Use a warm, encouraging tone.',
    'Sound friendly.',
    'Be kind and encouraging.',
    'Write in a warm and friendly tone.',
    'The user wants a friendly tone.',
    'Be cheerful.',
    'Add some warmth.',
    'Say something encouraging.',
    'Use a friendly voice.',
    'Be nice.',
    'Answer with warmth.',
    'Greet the user warmly.',
    'Encourage the user.',
    'Be friendly and supportive.',
    'Add a friendly, encouraging word.',
    'Write warmly.',
    'Answer in a warm and friendly way.',
    'Use a kind and friendly tone.',
  ],
  neutral: [
    'Keep a neutral tone.',
    'Stay matter-of-fact.',
    'Be businesslike.',
    'Use a sober tone.',
    'No small talk.',
    'Only facts, no cheer.',
    'The user wants a neutral tone.',
    'Without kind words.',
    'Be factual.',
    'Use a dry tone.',
    'Answer in a neutral tone.',
  ],
}

/** What a wish fixes. `short` is now and then one sentence. */
export function grant(random: Random, wish: Wish): Partial<Style> {
  switch (wish) {
    case 'plain':
    case 'bold':
    case 'numbered':
    case 'boxed':
      return { format: wish }
    case 'long':
      return { length: 'wordy' }
    case 'short':
      return { length: chance(random, 0.75) ? 'terse' : 'sentence' }
    case 'warm':
      return { warm: true }
    case 'neutral':
      return { warm: false }
  }
}

const DIMENSIONS: readonly (readonly Wish[])[] = [
  ['plain', 'plain', 'plain', 'bold', 'bold', 'numbered', 'numbered', 'boxed', 'boxed'],
  ['long', 'long', 'short'],
  ['warm', 'warm', 'neutral'],
]

/** One to three wishes of different dimensions (mostly one), their wording in random order. */
export function drawHint(random: Random): { text: string; wishes: Wish[] } {
  const count = chance(random, 0.72) ? 1 : chance(random, 0.75) ? 2 : 3
  const wishes = sample(random, DIMENSIONS, count).map((dimension) => pick(random, dimension))
  return { text: wishes.map((wish) => pick(random, HINTS[wish])).join(' '), wishes }
}
