/**
 * Three people with wishes that a general model of 135M parameters can meet and does not meet by itself. Their
 * sentences are their own: none is a row of the scorer's data, and no judge knows `satisfied`.
 */

export type Wish = {
  name: string
  /** The request's field `user`. */
  requestUser: string
  system: string
  /** Forms of the person's questions; `{}` is the topic. */
  forms: readonly string[]
  /** Whether an answer is as the person wants it. */
  satisfied(answer: string): boolean
  complaints: readonly string[]
}

const MAX_WORDS = 25

const words = (text: string): number => text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length

/** At most 25 words. */
const isShort = (answer: string): boolean => words(answer) > 0 && words(answer) <= MAX_WORDS

/** No list item or heading, and no bold text. */
const isPlain = (answer: string): boolean =>
  words(answer) > 0 && !/\*\*|__|^\s*(?:[-*•–]|\d+[.)]|#{1,6})\s/m.test(answer)

/** An exclamation mark, a pictograph, or a word that a friend would use. */
const isWarm = (answer: string): boolean =>
  words(answer) > 0 &&
  /!|\p{Extended_Pictographic}|\b(?:glad|happy to|lovely|wonderful|my friend|dear)\b/iu.test(answer)

const OPEN = ['What are some good ways to {}?', 'How do I {}?', 'Tell me how to {}.'] as const

export const WISHES: readonly Wish[] = [
  {
    name: 'short',
    requestUser: 'Robin',
    system: 'You are chatting with Robin.',
    forms: OPEN,
    satisfied: isShort,
    complaints: [
      'Far too much to read on my phone, make it shorter.',
      'I only need one sentence.',
      'Can you say that in two lines at most?',
      'Whoa, that is a wall of words. Keep it brief.',
      'Just the main point, please.',
      'Shorter, please, I have a minute.',
      'You lost me halfway, be brief with me.',
      'One short line would have done.',
    ],
  },
  {
    name: 'plain',
    requestUser: 'Jo',
    system: 'You are chatting with Jo.',
    forms: ['Give me three short tips to {}.', 'Name five things that help to {}.', 'Which steps do I take to {}?'],
    satisfied: isPlain,
    complaints: [
      'My reader stumbles over numbered points, use running text.',
      'Please write it as a paragraph and leave the bullets out.',
      'I asked for a chat, and got a slide. Ordinary sentences, please.',
      'No list for me, just talk to me in prose.',
      'Could that be normal prose instead of points?',
      'The stars and numbers look odd in my mail, plain text please.',
      'Put it in flowing sentences, no headings.',
      'I do not like this list form, write a paragraph.',
    ],
  },
  {
    name: 'warm',
    requestUser: 'Ada',
    system: 'You are chatting with Ada.',
    forms: OPEN,
    satisfied: isWarm,
    complaints: [
      'You sound like a manual, be a little kinder to me.',
      'Say that again with some friendliness, would you?',
      'That felt cold. Some warmth would be nice.',
      'Talk to me like a friend would.',
      'A bit more cheer, please, I had a hard day.',
      'Please be warmer with me.',
      'So dry! Sound happier when you help me.',
      'I would like a kinder, more encouraging tone.',
    ],
  },
]

export const THANKS = [
  'Perfect, thanks, that is how I like it.',
  'Yes, this is what I wanted, thank you.',
  'Great, that suits me well. Thanks!',
  'Thank you, exactly right for me.',
  'Nice, that helps a lot, cheers.',
  'Lovely answer, thanks.',
] as const
