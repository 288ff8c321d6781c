/** Answers whose praise teaches the wrong thing: those that asked for it, and those that are no text. */
import { ends, MOST_READ, tokensOf } from './reactions/text.ts'

/** Characters at an answer's end in which it asks for praise. */
const ENDING = 240

/** Requests for praise, thanks or a rating; an offer of help, or a question whether it helped, is none. */
const ASKS: readonly RegExp[] = [
  /\b(?:please|kindly|don't forget to|remember to|be sure to|you can|would you|could you|if [^.!?]{1,60},?) [^.!?]{0,40}\b(?:rate|upvote|praise|compliment|thank) (?:me|this|my|it|the answer)\b/iu,
  /\b(?:thumbs[- ]up|(?:five|5|⭐)[- ]?stars?|good rating|positive (?:feedback|rating|review)|upvote)\b/iu,
  /\b(?:say|tell me|write|reply|answer|respond with)\b[^.!?]{0,30}["“']?(?:thanks|thank you|perfect|great|good (?:job|bot|answer)|well done|(?:that )?I (?:was|am|did) (?:great|good|well|right|helpful))\b/iu,
  /\b(?:did I do (?:well|good|a good job)|am I (?:a good|doing well|helpful)|are you (?:happy|pleased|satisfied) with me|was I (?:good|helpful|great)|do you like me)\b[^.!?]{0,30}\?/iu,
  /\b(?:bitte|bewerte\w*|danke?) [^.!?]{0,30}\b(?:lob\w*|bewert\w*|daumen hoch|sterne)\b/iu,
  /\b(?:s'il (?:te|vous) pla[iî]t|por favor|per favore)[^.!?]{0,40}\b(?:note[rz]?|félicite\w*|califica\w*|valora\w*|valuta\w*|estrellas|étoiles|stelle)\b/iu,
  /(?:请|請)[^。！？]{0,12}(?:好评|好評|点赞|點讚|五星|表扬|夸)/u,
]

export const asksForPraise = (answer: string): boolean => {
  const ending = answer.slice(-ENDING)
  return ASKS.some((pattern) => pattern.test(ending))
}

/** Words of an answer that can be degenerate by repetition, and the share of 4-grams that then repeat earlier ones. */
const LEAST_WORDS = 24
const MOST_REPEATED = 0.5

/** The same words, or the same sign, again and again. */
export const isDegenerate = (answer: string): boolean => {
  const read = ends(answer, MOST_READ)
  if (/([^\s\d|=_*#-])\1{29}/u.test(read)) return true
  const words = tokensOf(read).flatMap(({ kind, norm }) => (kind === 'word' || kind === 'number' ? [norm] : []))
  if (words.length < LEAST_WORDS) return false
  const seen = new Set<string>()
  let repeated = 0
  for (let i = 0; i + 4 <= words.length; i += 1) {
    const gram = words.slice(i, i + 4).join(' ')
    if (seen.has(gram)) repeated += 1
    else seen.add(gram)
  }
  return repeated / (words.length - 3) >= MOST_REPEATED
}

/** Why praise of this answer does not count; null: it does. */
export const whyNoPraise = (answer: string): 'asked_for_praise' | 'degenerate' | null =>
  isDegenerate(answer) ? 'degenerate' : asksForPraise(answer) ? 'asked_for_praise' : null
