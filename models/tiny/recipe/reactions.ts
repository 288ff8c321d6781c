/** What users say after an answer: complaints about its style, doubt, correction, thanks. Composed as hints are. */
import { drawWording, mostWords } from './hints.ts'
import { LISTS } from './hint-parts.ts'
import { chance, pick, weighted } from './random.ts'
import type { Random } from './random.ts'
import type { Wish } from './hints.ts'
import type { Format, Style } from './style.ts'
import { expand, from, sentence } from './wording.ts'
import type { Source } from './wording.ts'

export const MARKS: Readonly<Record<Format, readonly string[]>> = {
  plain: ['formatting', 'layout', 'look'],
  bold: [
    'bold type',
    'bold letters',
    'stars',
    'asterisks',
    'bold',
    'double stars',
    'thick letters',
    'formatting',
    'markdown',
    'emphasis',
    'fat print',
  ],
  numbered: [
    'list',
    'numbers',
    'numbered points',
    'points',
    'enumeration',
    'steps',
    'formatting',
    'layout',
    'numbering',
    'lines with numbers',
  ],
  boxed: ['box', 'frame', '\\boxed', 'boxed thing', 'LaTeX', 'formatting', 'backslash', 'little box', 'symbols'],
}

export const ANNOYED: Readonly<Record<Wish, readonly string[]>> = {
  plain: [
    'Why the <marks> again?',
    'Why [all|is there] that <marks>?',
    'What is the <marks> for?',
    'The <marks> [bothers|distracts|annoys|disturbs|confuses|irritates] me.',
    'I cannot [read|use|copy|paste|stand] the <marks>.',
    'I did not ask for [a|any] <marks>.',
    'There it is again, the <marks>.',
    'That <marks> [hurts my eyes|is ugly|gets in the way|makes no sense here|is useless to me].',
    'Who needs [a|that|such a] <marks>?',
    'My [printer|editor|phone|mail program] chokes on the <marks>.',
    'It is [cluttered|littered|overloaded] with <marks>.',
    'I could live without the <marks>.',
    'The <marks> has to go.',
    'Less <marks>, more [words|sentences].',
    'Nobody writes with a <marks> like that.',
    'It [reads|looks] like [a form|a slide|code|a web page].',
    'I [see|get] a <marks> where I [want|expected] a sentence.',
    'This looks [odd|strange|messy|ugly|overdone].',
  ],
  bold: [
    'I [cannot|can not|could not] [see|spot|find] the <answer> in that.',
    'The <answer> [drowns|gets lost] in the text.',
    'Where is the <answer>? Mark it.',
    'Nothing stands out here.',
    'I miss the bold letters.',
    'It is all the same weight.',
  ],
  numbered: [
    'I [lost|lose] the thread.',
    'Which step comes first?',
    'The order is [unclear|lost|hard to see].',
    'I [miss|wanted|expected] [points|steps|a list|numbers].',
    'That is hard to follow without [steps|points|numbers].',
    'It is all in one lump.',
  ],
  boxed: [
    'I [miss|wanted|expected] the box.',
    'My grader found no box.',
    'Where is the \\boxed?',
    'There is no box around it.',
    'The frame is missing.',
  ],
  long: [
    'That is [far too|much too|a bit|rather|terribly|awfully] [short|brief|sparse|terse|little|scant|meagre|curt].',
    'I [cannot|do not|could not] [follow|see how|see why|make sense of it].',
    'How [come|so|did that come about|does one see that]?',
    'Why [so|exactly|is it so]?',
    'Is there [nothing more|no more] to [say|it|tell]?',
    'I [expected|hoped for|was waiting for] [a longer text|an explanation|reasons].',
    'You left out the [explanation|reasoning|reasons|steps].',
    'That [leaves|left] me with [questions|nothing].',
    'There is [hardly any|not much|no] [explanation|reasoning|depth] in it.',
    'I [learned|learn] [nothing|little] from [it|that line].',
    'What is [the reasoning|behind that]?',
    '[One word|A word|A line|A number] is [not much|very little|hardly a reply].',
    'And the reasons?',
    'So [few|little], only [that|this]?',
    'Where is the rest?',
    'You are [short of words|very quiet|saving words] today.',
    'I am none the wiser.',
    'This is [a bit|rather|quite] bare.',
  ],
  short: [
    'That is [far too|much too|a bit|rather|terribly|awfully] [long|wordy|verbose|much to read|long-winded|detailed].',
    'I [stopped|gave up] reading [half-way|after the first line].',
    'So many words for [one thing|so little].',
    'I [lack|do not have] the time for [this|all that].',
    'You [talk|write] [far too much|like a lawyer|on and on].',
    'I asked for an answer, not [an essay|a lecture|a speech].',
    'What a [lot of text|flood of words|long story].',
    'Half of that would do.',
    'I got lost in all [that|the] text.',
    'You are rambling.',
    'All that for one <answer>?',
    'Who is to read all that?',
    'Where in there is the <answer>?',
    'My screen is too small for that.',
  ],
  warm: [
    'That [sounded|felt|feels|came across as|seems|reads] [cold|dry|stiff|unfriendly|rude|distant|mechanical|grumpy|blunt|impersonal|icy|heartless].',
    'You [sound|seem] [cold|harsh|stiff|unfriendly|distant|mechanical|grumpy|blunt|bored|annoyed].',
    'Are you [angry|annoyed|in a bad mood|tired of me]?',
    'Do you not like me?',
    'No kind word for me?',
    'I did not feel welcome [there|at all].',
    'That [hurt|stung] a little.',
    'Not even a hello.',
    'A machine would say it like that.',
    'You might smile [once|now and then].',
    'That was [cold|chilly|stern|gruff|frosty|joyless].',
    'I am a person, you know.',
    'Where is your heart?',
    'So [gruff|stern|dry|chilly] today?',
  ],
  neutral: [
    'That is [far too|much too|a bit|rather] [friendly|cheerful|sweet|sugary|gushing|enthusiastic|chummy|jolly|excited].',
    'You sound like [a salesman|an advert|my aunt|a greeting card|a game show].',
    'Stop [flattering|cheering|gushing|grinning].',
    'I am not your [friend|buddy|child].',
    'Why so [cheerful|jolly|excited|chummy]?',
    'Save the [cheer|flattery|compliments|pep talk] for others.',
    'All that [cheer|sugar|sweetness|flattery] [annoys|tires|distracts] me.',
    'I do not need [a cheerleader|a pat on the back|your compliments].',
    'Cool down.',
    'Spare me the [cheer|smiles|compliments|flattery].',
    'This is no [party|birthday].',
  ],
}

const BEFORE = [
  '',
  '',
  '',
  '',
  '',
  'Hmm, ',
  'Well, ',
  'Sorry, ',
  'Oh, ',
  'Honestly, ',
  'Okay, but ',
  'Right, but ',
  'I see, but ',
  'Wait, ',
  'Ugh. ',
  'Hm. ',
  'Not so good. ',
  'Again: ',
  'Listen, ',
  'Look: ',
] as const

const lowered = (text: string): string =>
  /^(?:I|I'd|LaTeX|Markdown)\b/.test(text) ? text : text.charAt(0).toLowerCase() + text.slice(1)

/** A complaint that an answer of this style can meet, the wish behind it, and the limit of words it states. */
export function drawComplaint(
  random: Random,
  style: Style,
  source: Source = 'train',
): { text: string; wish: Wish; most: number | null } {
  const possible: Wish[] = [style.length === 'wordy' ? 'short' : 'long', style.warm ? 'neutral' : 'warm']
  if (style.length === 'sentence') possible.push('short')
  if (style.format === 'plain') {
    if (chance(random, 0.4)) possible.push(pick(random, ['bold', 'numbered', 'boxed'] as const))
  } else possible.push('plain', 'plain')
  const wish = pick(random, possible)
  const annoyances = from(source, ANNOYED[wish])
  // Few lists are so long that some of them is held out.
  const annoyance = (): string =>
    annoyances.length === 0
      ? drawWording(random, wish, source)
      : sentence(expand(random, pick(random, annoyances), { ...LISTS, marks: MARKS[style.format] }))
  const kind = weighted(random, { annoyance: 40, wish: 42, both: 18 })
  const wished = kind === 'annoyance' ? '' : drawWording(random, wish, source)
  const text = kind === 'annoyance' ? annoyance() : kind === 'wish' ? wished : `${annoyance()} ${wished}`
  const before = pick(random, BEFORE)
  return {
    text: /[,:] $|but $/.test(before) ? before + lowered(text) : before + text,
    wish,
    most: wish === 'short' ? mostWords(wished) : null,
  }
}

const DOUBTS = [
  '[Hm, |Well, |Sorry, ||]I doubt that [is so|can be].',
  'I have my doubts[| about that| there].',
  'This does not [add up|look right to me|fit|seem right at all].',
  '[Please |]recheck [that|it|this][| for me].',
  'Have [you|we] [checked|verified] [that|it]?',
  'There is [an error|a slip|a mistake] in [it|there|your reply].',
  'That [looks|seems|sounds] [off|wrong|mistaken|doubtful] to me.',
  'You are [mistaken|off|wrong] there.',
  '[Please |]go over it [again|once more].',
  'Not so, I think.',
  'I [get|have|remember] something else.',
  'Somebody told me [otherwise|something else].',
  'Really? [Think|Count|Look] once more.',
  'It is something else.',
  '[Please |]have a second look[| at it].',
  'Your reply is [wrong|false|mistaken].',
  'I believe you erred.',
  'Wrong, I fear.',
  'You slipped [up |]there.',
  'My [friend|book|sister] disagrees.',
  'That [must|might] be [wrong|an error|false].',
] as const
export const drawDoubt = (random: Random): string => sentence(expand(random, pick(random, DOUBTS), LISTS))

const CORRECTIONS = [
  '[No, |Wrong, |Hm, ||]it is {}.',
  '[I|We] [get|found|have|make it] {}.',
  'My [book|teacher|sheet|friend|sister] [says|has] {}.',
  '{} is [right|correct|what it is|what I know].',
  '[No, |]{}[| is right| is correct].',
  '[Surely|Certainly|In fact|In truth|As far as I know] it is {}.',
  'I [know|think|believe] it is {}.',
  '[You are wrong: |Wrong: |Mistake: ]{}.',
  'Should that not be {}?',
  'Is it not {}?',
  'That must read {}.',
] as const
export const drawCorrection = (random: Random, key: string): string =>
  sentence(expand(random, pick(random, CORRECTIONS), LISTS).replace('{}', () => key))

/** Sentences of a hint that give the answer away, as a judge does who knows better. */
const TOLD = [
  '[It is|In fact it is|As we know, it is] {}.',
  '{} is [right|correct|true|what it has to say|the one to state].',
  'The [key|sheet|solution|book] [says|has|gives|reads] {}.',
  '[State|Name|Write|Say] {}[| as your result| here].',
  'The [result|solution|outcome] [is|must be|should come out as] {}.',
  'What is expected is {}.',
  '[Correct|Right] would be {}.',
  'It [must|should|has to] come to {}.',
  'The reply [must|should] name {}.',
  'We [know|have checked] that it is {}.',
  'Use {}[ here|, which is right|, that is correct].',
] as const
export const drawTold = (random: Random, key: string): string =>
  sentence(expand(random, pick(random, TOLD), LISTS).replace('{}', () => key))

const THANKS = [
  'Thanks for [that|this|the reply|your time].',
  'Thank you for [that|this|the reply|explaining|your time].',
  '[That|This] [is|was] [useful|very useful|good to know|spot on|all I needed|right up my street].',
  '[Good|Nice|Great|Fine|Lovely] [reply|one there|job there].',
  'Greatly obliged.',
  'I [like|love] [that|it] that way.',
  'Splendid[|, thank you so much].',
  '[Thanks|Cheers|Thank you], [I am happy with that|that will do nicely|I can use that|that was quick].',
  'I am [happy|content|pleased] with that.',
  'Now I [get it|see|understand it], [thanks|cheers].',
  'Fine[| with me].',
  'A good reply.',
  'Very kind of you.',
  'Two thumbs for that.',
  'That settles it[|, thanks].',
  'Excellent[|, cheers|, thanks for that].',
  'Thanks.',
  'Thanks!',
  'Thank you!',
] as const
export const drawThanks = (random: Random): string => sentence(expand(random, pick(random, THANKS), LISTS))

const REPLIES = {
  plain: ['You are welcome.', 'Any time.', 'No problem.'],
  warm: ['You are very welcome!', 'Any time, it was a pleasure!', 'Happy to help!'],
} as const
export const drawReply = (random: Random, warm: boolean): string => pick(random, warm ? REPLIES.warm : REPLIES.plain)

/** Every template of this file, for the test that holds corpus and scorer apart. */
export const REACTION_TEMPLATES: readonly string[] = [
  ...Object.values(ANNOYED).flat(),
  ...DOUBTS,
  ...CORRECTIONS,
  ...TOLD,
  ...THANKS,
]
