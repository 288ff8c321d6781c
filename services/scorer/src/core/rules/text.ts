/**
 * A message as the rules read it: lower case, contractions opened, idioms that mean the opposite of their words
 * replaced.
 */

const CONTRACTIONS: readonly (readonly [RegExp, string])[] = [
  [/[’‘´`]/g, "'"],
  [/[“”]/g, '"'],
  [/\bcan'?t\b|\bcannot\b/g, 'can not'],
  [/\bwon'?t\b/g, 'will not'],
  [/\bain'?t\b/g, 'is not'],
  [/\b(do|does|did|is|are|was|were|has|have|had|would|could|should|need|must)n'?t\b/g, '$1 not'],
  [/\b(it|that|this|what|here|there|he|she|who|how|answer|sum|result|total|capital|where)'s\b/g, '$1 is'],
  [/\bthats\b/g, 'that is'],
  [/\bwhats\b/g, 'what is'],
  [/\bits (?=-?\d)/g, 'it is '],
  [/\bi'?m\b/g, 'i am'],
  [/\b(i|you|we|they|it|that|he|she)'d\b/g, '$1 would'],
  [/\b(i|you|we|they)'ve\b/g, '$1 have'],
  [/\b(i|you|we|they|it|that)'ll\b/g, '$1 will'],
  [/\b(you|we|they)'re\b/g, '$1 are'],
  [/\blet'?s\b/g, 'let us'],
  [/\b(?:pls|plz|plese|pleas)\b/g, 'please'],
  [/\b(?:thx|thnx|tnx|thanx|tysm|ty|thankyou|thnks|thank u)\b/g, 'thanks'],
  [/\bu\b/g, 'you'],
  [/\bur\b/g, 'your'],
  [/\bw\/o\b/g, 'without'],
]

/** Their words say one thing, the phrase another. */
const IDIOMS: readonly (readonly [RegExp, string])[] = [
  [/\bnot (?:(?:too|so|that|half|at all) )?(?:bad|shabby)(?: at all)?\b/g, 'good'],
  [
    /\b(?:can|could) not complain\b|\bno complaints?\b|\bnothing (?:is )?wrong\b|\bnothing to (?:complain|criticise|criticize)\b/g,
    'good',
  ],
  [
    /\b(?:can|could) not (?:be (?:better|happier|clearer|nicer)|agree more|ask for (?:more|better)|have (?:said|put) it better|wish for more)\b/g,
    'perfect',
  ],
  [/\bno (?:mistakes?|errors?|faults?)\b|\bnot wrong\b|\bwithout (?:a |any )?(?:mistakes?|errors?)\b/g, 'correct'],
  [/\b(?:could|can|would|did|do) not (?:have )?(?:love|like|enjoy|need)(?:d)? (?:it |that |this )?more\b/g, 'love it'],
  [
    /\bno (?:problem|worries|prob|hurry|rush|thanks|thank you|thank|need to thank|further questions?|more questions?)\b|\bnever ?mind\b|\bnothing else\b|\bnot (?:really )?a problem\b|\bdo not worry\b/g,
    ' ',
  ],
  [/\bthanks? (?:you )?in advance\b|\bthank you in advance\b/g, ' '],
  [/\b(?:could|would) (?:you )?kindly\b/g, 'could you please'],
  [/\bkind of\b/g, 'somewhat'],
  [/\bkind regards\b|\bbest regards\b/g, ' '],
  [/\bno (?:doubt|wonder)\b/g, ' '],
  [/\bby the way\b/g, ' '],
  [/\bnot only\b/g, ' '],
  [/\b(?:what|how) about\b/g, 'how about'],
  // Who thinks again takes back what was about to be said.
  [
    /(?<=^|[.!?\n]\s*)(?:(?:oh|hm+|ah|um+|uh),? )?(?:no,? wait|wait,? no|no,? hold on|hold on,? no|scratch that)\b[,.…! ]*/g,
    ' ',
  ],
  [/\bnot to mention\b/g, ' '],
  [/\bi do not mind\b/g, ' '],
]

export const normalise = (text: string): string => {
  let out = text.normalize('NFKC').toLowerCase()
  for (const [pattern, replacement] of CONTRACTIONS) out = out.replace(pattern, replacement)
  for (const [pattern, replacement] of IDIOMS) out = out.replace(pattern, replacement)
  return out.replace(/[ \t]+/g, ' ').trim()
}

export type Clause = {
  text: string
  question: boolean
  /** It stands behind a "but": it carries the message. */ turned: boolean
  sentence: number
}

const ENDS = /([.!?;…]+)(?=\s|$)|\n+|\s[-–—]+\s|—/g
const TURNS = /,?\s*\b(?:but|however|although|except|only that|yet i|although|though|still,|otherwise)\b,?/g
/** A request in the same sentence is a clause of its own. */
const REQUESTS =
  /,\s+(?:and |so )?(?=(?:now |next |moving on|on to |then |another |please |can you|could you|would you|will you|what |who |when |where |which |how |why |may i|tell me|give me))/g

export const clausesOf = (normal: string): Clause[] => {
  const clauses: Clause[] = []
  let sentence = 0
  let from = 0
  const take = (to: number, end: string): void => {
    const turned = normal.slice(from, to).split(TURNS)
    turned.forEach((part, i) => {
      for (const piece of part.split(REQUESTS)) {
        const text = piece.replace(/^[\s,:"']+|[\s,:"']+$/g, '')
        if (text !== '')
          clauses.push({
            text,
            question: end.includes('?'),
            turned: i > 0 && turned.slice(0, i).some((t) => t.trim() !== ''),
            sentence,
          })
      }
    })
    sentence += 1
  }
  for (const match of normal.matchAll(ENDS)) {
    take(match.index, match[0])
    from = match.index + match[0].length
  }
  take(normal.length, '')
  return clauses
}

export const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{N}]+(?:['-][\p{L}\p{N}]+)*/gu) ?? []

/** Words of one form: plural and verb endings off. */
const stem = (word: string): string => (word.length <= 4 ? word : word.replace(/(?:ings?|edly|ed|ies|es|s|ly)$/, ''))

/** Words that say nothing about what a message is about. */
const EMPTY = new Set(
  `a an the this that these those it its he she they them there here i me my mine we us our you your yours one ones
around across along and or but if so then than as at by for from in into of on onto to up out off over with about after before again also too very really just only even still yet
am is are was were be been being do does did done have has had having can could will would shall should may might must let
no not none nor never yes yeah ok okay well oh hey hi hello please sorry thanks thank
what who whom whose which when where why how all any both each few more most much many some such less least lot lots bit little own same other another
answer answers answered answering reply replies replied response responses respond message text texts question questions time times way ways thing things stuff part
say says said saying tell tells told telling write writes wrote writing written give gives gave giving make makes made making put puts use uses used using keep keeps try tries trying
get gets got getting go goes going come comes like likes want wants wanted need needs needed prefer rather instead think thinks know knows see look looks looking read reads reading find feel feels sound sounds seem seems
now next first last second previous above below later back new old big small good maybe perhaps actually already always ever something anything nothing everything word words sentence sentences
person people human bot assistant model ai chatbot user able sure lets kindly could show shows explain explains ask asked asking mean means meant work works`.split(
    /\s+/,
  ),
)

const isEmptyWord = (word: string): boolean => word.length < 2 || EMPTY.has(word)

export const contentWords = (text: string): string[] =>
  wordsOf(text)
    .filter((word) => /\d/.test(word) || !isEmptyWord(word))
    .map(stem)
