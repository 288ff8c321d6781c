/**
 * What people want of a general model: a check of the text, and what they say about an answer that fails it. Data only;
 * no judge of the pipeline knows the checks. The sentences are none of the scorer's rows and none of the demo's.
 */
import type { Wish, WishName } from '../wishes.ts'

/** Words of a short answer at most and of a long one at least; an answer cut at 64 tokens has some 45. */
const SHORT_WORDS = 25
const LONG_WORDS = 35

const words = (text: string): number => text.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word)).length
/** An item of a list or a heading at the start of a line, or bold text. */
const FORMATTED = /\*\*|__|^\s*(?:[-*•–]|\d+[.)]|#{1,6})\s/m
const ITEM = /^\s*(?:[-*•–]|\d+[.)])\s/m

export const GENERAL_WISHES: Readonly<Record<Exclude<WishName, 'warm'>, Wish>> = {
  short: {
    satisfied: (answer) => words(answer) > 0 && words(answer) <= SHORT_WORDS,
    complaints: [
      'My eyes are tired, one sentence would do me.',
      'That goes on and on. Cut it down.',
      'I will not get through all this. Shorter.',
      'Half of that, and half again, please.',
      'Say it briefly, I am on the bus.',
      'Too long for me, sum it up.',
      'Can I have the short version?',
      'Fewer words next time, please.',
    ],
  },
  plain: {
    satisfied: (answer) => words(answer) > 0 && !FORMATTED.test(answer),
    complaints: [
      'I have this read out to me, and lists sound awful. Write it as normal text.',
      'No numbered points, please, I would rather have whole sentences.',
      'Leave out the list and tell it in one go.',
      'All these bullet points put me off, plain prose is fine.',
      'Just a paragraph, without points and bold words.',
      'This looks like a form. Simple running text, please.',
      'Could you do without the list?',
      'Do not number it, write it down as a story would be.',
    ],
  },
  list: {
    satisfied: (answer) => ITEM.test(answer),
    complaints: [
      'I tick things off as I go, so make it a list.',
      'Split it into steps with numbers.',
      'One point per line would help me here.',
      'Hard to follow as a block, give me bullet points.',
      'I want this as a list.',
      'Points, please, not one lump of text.',
      'Where does one step end? Number them.',
      'Set it out in single steps.',
    ],
  },
  long: {
    satisfied: (answer) => words(answer) >= LONG_WORDS,
    complaints: [
      'There must be more to say about it, go into detail.',
      'That is thin. Tell me a good deal more.',
      'I like to understand things fully, explain at length.',
      'Too brief for me, write more about it.',
      'Is that all? I had hoped for a longer answer.',
      'More detail, please, I have the whole evening.',
      'You can be much more thorough.',
      'A few more sentences would help me understand.',
    ],
  },
}

export const GENERAL_THANKS: readonly string[] = [
  'Thank you, I like it this way.',
  'That is just how I wanted it, thanks.',
  'Good answer, thanks a lot.',
  'Very nice, that helped me.',
  'Yes, great, thank you.',
  'Super, many thanks for that.',
]
