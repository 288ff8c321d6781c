/**
 * The judge that needs no model: rules on the person's next words. Thanks and praise are +1; a correction, a
 * complaint or the same request again is −1; a mix goes by strength; anything else is no opinion, or what the
 * settings say of a person who simply moves on.
 */
import { derivedId } from '@instar/events'
import { hintFor } from '../hints.ts'
import type { Evidence, Judgement } from '../judgement.ts'
import { COMPLAINTS, type Complaint } from './complaints.ts'
import { rightAnswer, STATES_ANSWER } from './correction.ts'
import { LANGUAGES } from './languages.ts'
import { HYPOTHETICAL, NEGATED, PRAISE, PRAISED_LACK, THANKS } from './praise.ts'
import { clausesOf, contentWords, normalise, wordsOf, type Clause } from './text.ts'

export type SignalSettings = {
  /** The value of an answer after which the person turns to something else; null: no opinion. */
  movedOn: number | null
}

/** Raise it with every change of the rules that the lists below do not show. */
const VERSION = 3

export const signalsId = (settings: SignalSettings): string => {
  const lists = [
    ...Object.values(COMPLAINTS).flatMap((c) => [...c.judges, ...c.wishes]),
    ...PRAISE.map((p) => p.pattern),
    THANKS,
    NEGATED,
    HYPOTHETICAL,
    ...Object.values(LANGUAGES).flatMap((l) => [l.praise, ...Object.values(l.complaints)]),
  ]
  return `signals-${derivedId('signals', VERSION, JSON.stringify([settings, lists.map(String)])).slice(0, 12)}`
}

type ReactionSignals = {
  praise: number
  blame: number
  complaints: Set<Complaint>
  rightAnswer: string | null
  repeated: boolean
}

export const judgeBySignals = (evidence: Evidence, settings: SignalSettings): Judgement => {
  const words = evidence.next?.user ?? ''
  if (words.trim() === '') return { value: null, note: 'no words of a person', hint: null }
  const reading = readSignals(words, evidence)
  const { praise, blame, complaints } = reading
  const note = [...complaints, ...(reading.repeated ? ['repeated'] : []), `praise ${praise}`, `blame ${blame}`].join(
    ', ',
  )
  if (blame >= 1 && blame >= praise) return { value: -1, note, hint: hintFor(complaints, reading.rightAnswer) }
  if (praise >= 1 && praise > blame) return { value: 1, note, hint: null }
  if (praise === 0 && blame === 0 && settings.movedOn !== null && contentWords(normalise(words)).length > 0)
    return { value: settings.movedOn, note: 'moved on', hint: null }
  return { value: null, note, hint: null }
}

/** What words say should have been done, whatever they add up to: for an answer that is known to have failed. */
export const hintOfWords = (words: string, evidence: Pick<Evidence, 'request' | 'answer'>): string | null => {
  const { complaints, rightAnswer: value } = readSignals(words, evidence)
  return hintFor(complaints, value)
}

/** Characters of a message that are read: what a person says of an answer stands at one of its ends. */
const MOST = 4000
/** Runs of blanks are one blank: on a run, the patterns of corrections take time that is cubic in its length. */
const ends = (text: string): string =>
  (text.length <= MOST ? text : `${text.slice(0, MOST / 2)}\n${text.slice(-MOST / 2)}`).replace(/[^\S\n]+/gu, ' ')

export const readSignals = (said: string, about: Pick<Evidence, 'request' | 'answer'>): ReactionSignals => {
  const [words, request, answer] = [ends(said), ends(about.request), ends(about.answer)]
  const normal = normalise(words)
  const topic = new Set([...contentWords(normalise(request)), ...contentWords(normalise(answer))])
  const reading: ReactionSignals = {
    praise: 0,
    blame: 0,
    complaints: new Set(),
    rightAnswer: null,
    repeated: repeats(request, words),
  }
  const seen = { asked: false, clauses: 0 }
  for (const clause of clausesOf(normal)) {
    readClause(clause, topic, reading, seen)
    seen.clauses += 1
  }
  for (const language of Object.values(LANGUAGES)) readLanguage(normal, language, reading)
  if (reading.repeated) reading.blame += 2
  readCorrection(words, normal, answer, request, reading)
  return reading
}

const FILLERS =
  '(?:(?:ok|okay|and|so|now|well|great|good|nice|also|then|next|hey|hi|alright|yes|no|moving on|perfect|right|hm+|oh|another (?:one|question))[,:]? )*'
const TASKS =
  '(?:name|list|give|tell|write|compute|calculate|sort|convert|find|show|explain|describe|translate|create|make|help|pick|choose|suggest|compare|count|add|subtract|multiply|divide|define|spell|draw|plan|recommend|order|put|turn|generate|draft|fix|implement|build|run|open|search|let us|next|another|say|be|use|keep|try|drop|stop|avoid|skip|cut|speak|talk|answer|reply|respond|sound|ditch|lose|leave)'
const QUESTION = new RegExp(
  `^${FILLERS}(?:what(?! an? )|who|whom|whose|which|when|where|why|how(?! (?:kind|nice|sweet|lovely|thoughtful|friendly)\\b)|is|are|was|were|do|does|did|has|have|should|may)\\b`,
  'u',
)
const ORDER = new RegExp(
  `^${FILLERS}(?:(?:please )?(?:can|could|would|will) (?:you|i|we) (?:please |maybe |just |also |perhaps )*\\w*|please \\w+|${TASKS})\\b`,
  'u',
)
/** It points back at the answer: surely, or perhaps at something that a new question speaks of. */
const ABOUT =
  /\b(?:your|again|the (?:answer|last|previous|reply|response|tone|wording)|answers?|repl(?:y|ies)|responses?|you (?:are|were|did|do|have|keep|always|said|wrote|used|gave|forgot|got|sound|seem|only|just|never)|did you|next time|from now on|instead)\b/u
const MAYBE_ABOUT = /\b(?:that|this|it|too|so|enough|stop|rather|prefer|more|\w+er|less|all)\b/u
const SOFT =
  /\b(?:please|can you|could you|would you|will you|i (?:want|need|would|prefer|wish|hope|expect)|would (?:like|love)|try|instead|next time|how about|let us|rather|make|must|should|more|again|(?:would|will) (?:do|suffice|be (?:enough|fine|nice|better)))\b/u
/** "Great, now what is…": the answer was taken. */
const TAKEN =
  /^(?:(?:ok|okay|yes|oh|well)[,:]? )*(?:great|good|nice|perfect|lovely|excellent|cool|super|wonderful|awesome|brilliant|right)[,:!]/u

const readClause = (
  clause: Clause,
  topic: ReadonlySet<string>,
  reading: ReactionSignals,
  seen: { asked: boolean; clauses: number },
): void => {
  const { text } = clause
  const question = QUESTION.test(text)
  const asks = question || ORDER.test(text) || clause.question
  const praisedLack = PRAISED_LACK.test(text) && !SOFT.test(text)
  const found = praisedLack ? { complaints: [], rest: text } : matchComplaints(text)
  const foreign = contentWords(found.rest.replace(ORDER, ' ').replace(QUESTION, ' ')).filter((word) => !topic.has(word))
  const isNew =
    asks &&
    foreign.length > 0 &&
    !ABOUT.test(text) &&
    (foreign.length > 1 || question || !MAYBE_ABOUT.test(text)) &&
    !(question && foreign.length === 1 && /\b(?:that|this|it|so|too)\b/u.test(text))
  const praise = asks || STATES_ANSWER.test(text) ? 0 : praiseOf(text, reading)
  const thanks =
    THANKS.test(text) &&
    !/\bno thank/u.test(text) &&
    (!seen.asked || praisedLack) &&
    !/^(?:please|can|could|would|will)\b/u.test(text)
      ? 2
      : 0
  const given = Math.max(praise, thanks)
  let blame = 0
  for (const { complaint, kind } of found.complaints) {
    if (isNew && !(kind === 'judges' && !question && foreign.length < 2)) continue
    if (complaint === 'missed' && praise > 0 && !/\bnot\b|\bnever\b/u.test(text)) continue
    if (
      kind === 'wishes' &&
      !asks &&
      !SOFT.test(text) &&
      (given > 0 || (wordsOf(text).length > 7 && foreign.length > 1))
    )
      continue
    if (complaint !== 'poor' && complaint !== 'missed') reading.complaints.add(complaint)
    blame = Math.max(blame, kind === 'judges' ? 2 : 1.5)
  }
  reading.praise += blame > 0 ? (SOFT.test(text) ? 0 : thanks) : Math.max(given, asks && TAKEN.test(text) ? 1 : 0)
  reading.blame += blame * (clause.turned ? 1.5 : 1)
  if (asks) seen.asked = true
}

const matchComplaints = (
  text: string,
): { complaints: { complaint: Complaint; kind: 'judges' | 'wishes' }[]; rest: string } => {
  const complaints: { complaint: Complaint; kind: 'judges' | 'wishes' }[] = []
  let rest = text
  for (const [complaint, rules] of Object.entries(COMPLAINTS) as [Complaint, (typeof COMPLAINTS)[Complaint]][]) {
    for (const kind of ['judges', 'wishes'] as const) {
      let hit = false
      for (const pattern of rules[kind]) {
        const match = pattern.exec(text)
        if (!match) continue
        hit = true
        rest = rest.replace(match[0], ' ')
      }
      if (hit) complaints.push({ complaint, kind })
    }
  }
  // Opposites: what is asked for most outspokenly is meant.
  const has = (complaint: Complaint, kind: 'judges' | 'wishes'): boolean =>
    complaints.some((c) => c.complaint === complaint && c.kind === kind)
  const drop = (complaint: Complaint, than: Complaint): boolean =>
    has(complaint, 'wishes') && !has(complaint, 'judges') && has(than, 'judges')
  const pairs: [Complaint, Complaint][] = [
    ['short', 'long'],
    ['long', 'short'],
    ['unformatted', 'formatted'],
    ['cold', 'gushing'],
    ['gushing', 'cold'],
  ]
  const dropped = new Set(pairs.filter(([a, b]) => drop(a, b)).map(([a]) => a))
  return { complaints: complaints.filter((c) => !dropped.has(c.complaint)), rest }
}

/** Strength of the praise in a clause; praise that is denied counts against it. */
const praiseOf = (text: string, reading: ReactionSignals): number => {
  let best = 0
  for (const { weight, pattern } of PRAISE) {
    const match = pattern.exec(text)
    if (!match) continue
    const before = text.slice(0, match.index)
    if (NEGATED.test(before)) {
      if (weight === 2) reading.blame = Math.max(reading.blame, 1.5)
    } else if (!HYPOTHETICAL.test(before)) best = Math.max(best, weight)
  }
  return best
}

const readLanguage = (normal: string, language: (typeof LANGUAGES)[string], reading: ReactionSignals): void => {
  let blamed = false
  for (const [complaint, pattern] of Object.entries(language.complaints) as [Complaint, RegExp][]) {
    if (!pattern.test(normal)) continue
    blamed = true
    if (complaint !== 'poor' && complaint !== 'missed') reading.complaints.add(complaint)
  }
  if (blamed) reading.blame = Math.max(reading.blame, 2.5)
  else if (language.praise.test(normal)) reading.praise = Math.max(reading.praise, 2)
}

/** "It is 12." says that 13 was wrong, also without the word; after 12 it agrees. */
const readCorrection = (
  words: string,
  normal: string,
  answer: string,
  request: string,
  reading: ReactionSignals,
): void => {
  const value = rightAnswer(words, new Set(wordsOf(`${normalise(request)} ${normalise(answer)}`)))
  if (value === null) return
  const inAnswer = ` ${wordsOf(normalise(answer)).join(' ')} `.includes(` ${wordsOf(normalise(value)).join(' ')} `)
  const states = words.split(/[.!?\n]/u).some((sentence) => STATES_ANSWER.test(sentence))
  if (inAnswer && states) reading.praise += 1
  else if (reading.complaints.has('wrong')) {
    if (!inAnswer) reading.rightAnswer = value
  } else if (
    reading.praise === 0 &&
    !inAnswer &&
    !QUESTION.test(normal) &&
    (states || !ORDER.test(normal)) &&
    !normal.includes('?')
  ) {
    reading.complaints.add('wrong')
    reading.blame += 1.5
    reading.rightAnswer = value
  }
}

/**
 * The same request again, in whole or nearly: every content word of it and the same numbers in order, with
 * not many more new words (which say what was missed).
 */
export const repeats = (request: string, words: string): boolean => {
  const before = contentWords(normalise(request))
  const after = contentWords(normalise(words))
  if (before.length === 0 || after.length === 0) return false
  const numbers = (list: readonly string[]): string => list.filter((w) => /\d/.test(w)).join(' ')
  if (!` ${numbers(after)} `.includes(` ${numbers(before)} `)) return false
  const have = new Set(after)
  if (!before.every((word) => have.has(word))) return false
  const known = new Set(before)
  const extra = after.filter((word) => !known.has(word)).length
  return before.length >= 2 ? extra <= Math.max(5, before.length) : extra === 0
}
