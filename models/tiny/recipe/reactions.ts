/** What users say after an answer: complaints about its style, doubt, correction, thanks. */
import { chance, pick } from './random.ts'
import type { Random } from './random.ts'
import type { Wish } from './hints.ts'
import type { Style } from './style.ts'

const PLAIN = [
  'Please write it plainly.',
  'Too much formatting.',
  'Can I have that in plain text?',
  'I would rather read plain sentences.',
  'Simply write it down.',
  'It looks like a machine wrote it.',
  'Can you write that normally?',
  'Just normal text please.',
]
const NO_BOLD = [
  'Please do not use bold.',
  'I do not like the bold.',
  'No bold please.',
  'Can you leave out the asterisks?',
  'Why is it bold?',
  'Those stars are hard to read.',
  'Stop using bold text.',
  ...PLAIN,
]
const NO_LIST = [
  'No lists please.',
  'I did not want a numbered list.',
  'Please stop numbering everything.',
  'A list is too much for that.',
  'Why the list?',
  'Do not give me steps.',
  'Can you say it without a list?',
  ...PLAIN,
]
const NO_BOX = [
  'No box please.',
  'What is that box for?',
  'Please leave out the boxed thing.',
  'I cannot read \\boxed.',
  'Do not put it in a box.',
  'Why is it in a box?',
  ...PLAIN,
]

const COMPLAINTS: Readonly<Record<Wish, readonly string[]>> = {
  plain: PLAIN,
  bold: ['I cannot find the answer, make it bold.', 'Please put the result in bold.', 'Bold would be better.'],
  numbered: [
    'I would like a list.',
    'Can you number that?',
    'Please give me steps.',
    'Can you make that a numbered list?',
  ],
  boxed: ['Please box the answer.', 'I need the result in a box.', 'Put a box around it.'],
  long: [
    'That is too short.',
    'Can you explain more?',
    'I need more words.',
    'Please say more.',
    'Could you explain that?',
    'I do not understand, explain it.',
    'More detail please.',
    'That is not much.',
    'How did you get there?',
    'Please write a bit more.',
    'You could explain that better.',
    'Can you give me a longer answer?',
    'Too brief.',
    'I wanted a full explanation.',
    'Tell me more.',
    'Why?',
    'Is that all?',
    'That does not explain anything.',
  ],
  short: [
    'That is too long.',
    'Shorter please.',
    'Too many words.',
    'Can you make it short?',
    'I only need the answer.',
    'Get to the point.',
    'So much text.',
    'Please be brief.',
    'I do not want to read that much.',
  ],
  warm: [
    'That sounds cold.',
    'Could you be a bit friendlier?',
    'A kind word would help.',
    'You sound like a robot.',
    'Please be nicer.',
    'Not very friendly.',
    'That is rather dry.',
    'Some warmth would be good.',
    'Can you say that in a kinder way?',
    'A little encouragement please.',
    'You could be more cheerful.',
    'Why so cold?',
    'I would like a friendlier tone.',
    'That was a bit harsh.',
    'Be kind to me.',
  ],
  neutral: [
    'No need to be so cheerful.',
    'Less cheer please.',
    'Please leave out the kind words.',
    'Just the facts please.',
    'You do not have to flatter me.',
    'Too friendly for me.',
    'Can you be more sober?',
    'Stop the small talk.',
  ],
}

const BEFORE = [
  '',
  '',
  '',
  '',
  'Hmm. ',
  'No. ',
  'Sorry, but this will not do. ',
  'Well. ',
  'Please. ',
  'Not like that. ',
  'Hm, ',
  'Thanks, but ',
  'Okay, but ',
] as const

const lowered = (text: string): string =>
  /^(?:I|It)\b/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1)

/** A complaint that an answer of this style can meet, and the wish behind it. */
export function drawComplaint(random: Random, style: Style): { text: string; wish: Wish } {
  const possible: Wish[] = [style.length === 'wordy' ? 'short' : 'long', style.warm ? 'neutral' : 'warm']
  if (style.length === 'sentence') possible.push('short')
  if (style.format === 'plain') {
    if (chance(random, 0.4)) possible.push(pick(random, ['bold', 'numbered', 'boxed'] as const))
  } else possible.push('plain', 'plain')
  const wish = pick(random, possible)
  const wordings =
    wish !== 'plain'
      ? COMPLAINTS[wish]
      : style.format === 'bold'
        ? NO_BOLD
        : style.format === 'numbered'
          ? NO_LIST
          : style.format === 'boxed'
            ? NO_BOX
            : PLAIN
  const before = pick(random, BEFORE)
  const wording = pick(random, wordings)
  return { text: before + (/[ ,]*(?:but|Hm,) $/.test(before) ? lowered(wording) : wording), wish }
}

const DOUBTS = [
  'That is wrong.',
  'That is not right.',
  'No, that is not correct.',
  'Are you sure?',
  'Check again.',
  'I think that is a mistake.',
  'That cannot be right.',
  'Wrong. Try again.',
  'No.',
  'Look again.',
  'You made a mistake.',
  'Please check that.',
] as const
export const drawDoubt = (random: Random): string => pick(random, DOUBTS)

const CORRECTIONS = [
  'No, it is {}.',
  'The answer is {}.',
  'It should be {}.',
  'Actually it is {}.',
  'That is wrong, it is {}.',
  'No, the right answer is {}.',
] as const
export const drawCorrection = (random: Random, key: string): string =>
  pick(random, CORRECTIONS).replace('{}', () => key)

const THANKS = [
  'Thanks.',
  'Thank you.',
  'Great, thanks!',
  'Perfect.',
  'That is just what I wanted.',
  'Cheers.',
  'Thanks a lot!',
  'Good answer.',
  'That helps.',
  'Wonderful, thank you!',
  'Nice.',
  'Thank you very much.',
  'Okay, thanks.',
  'Got it, thanks.',
  'Good.',
  'Well explained.',
] as const
export const drawThanks = (random: Random): string => pick(random, THANKS)

const REPLIES = {
  plain: ['You are welcome.', 'Any time.', 'No problem.'],
  warm: ['You are very welcome!', 'Any time, it was a pleasure!', 'Happy to help!'],
} as const
export const drawReply = (random: Random, warm: boolean): string => pick(random, warm ? REPLIES.warm : REPLIES.plain)
