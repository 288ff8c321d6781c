/**
 * Claims of a value ("the right answer is 14"): what people said is right, by question. A hint with a value teaches it,
 * and so do the rewards of its person: less for the answer that is corrected, more for one with the value. So both need
 * several independent people. The client writes the results of tools, too: a value that one holds is the word
 * of the same person. Each score whose judge read a value has a verdict of the judge `values`, which names question, value
 * and person by digests; the claims are a fold of those verdicts, and a decision is made from the claims before it and
 * recorded.
 *
 * The `note` of that verdict is the stored form of a claim: a verdict has no other field for it, and a published record
 * schema cannot be changed. `noteOf` writes it and `claimIn` reads it. DIGEST hexadecimal digits are a digest:
 *   (agreed|withheld): value DIGEST of question DIGEST by DIGEST; EXPLANATION
 * Logs hold such notes, so the text before the semicolon must not change. The explanation is for people.
 */
import { derivedId, subjectOfSession, type JudgeVerdict, type ScoresEvent, type TurnState } from '@instar/events'
import type { Claim, Evidence, Judged, Praised } from './judgement.ts'
import type { Common } from './reactions/features.ts'
import { hashText } from './reactions/hash.ts'
import { ends, MOST_READ, tokensOf, type Token } from './reactions/text.ts'

/** Question → values → who claimed it. `at`: offset of the newest claim. */
export type ClaimTable = {
  get(about: string): Claims | undefined
  set(about: string, claims: Claims): unknown
  delete(about: string): unknown
  readonly size: number
} & Iterable<readonly [string, Claims]>
type Claims = { at: number; values: Readonly<Record<string, readonly string[]>> }

/** Questions with claims that are held, for each policy. */
export const MOST_QUESTIONS = 4096
/** Values of one question that are held, those of them that one person claims, and people of one value. */
export const MOST_VALUES = 16
export const MOST_OWN_VALUES = 4
export const MOST_PEOPLE = 16

const VALUES_JUDGE = 'values'
const DIGEST = 16
const digest = (...parts: string[]): string => derivedId('claim', ...parts).slice(0, DIGEST)

/** A number as it is written: its norm has at most two equal digits in a row, so that 111 would be 11. */
const wordOf = ({ kind, norm, raw }: Token): string => (kind === 'number' ? raw : norm)
/** The words and numbers of a text, without case and punctuation. */
export const wordsOf = (text: string): string[] =>
  tokensOf(ends(text, MOST_READ)).flatMap((token) =>
    token.kind === 'word' || token.kind === 'number' ? [wordOf(token)] : [],
  )

/** Letter case, punctuation and spaces make no difference, except in a longer request than is read. */
const questionOf = (request: string): string =>
  digest('question', request.length <= MOST_READ ? wordsOf(request).join(' ') : JSON.stringify(request))
const valueOf = (words: readonly string[]): string => digest('value', ` ${words.join(' ')} `)

export const claimOf = (value: string, { request }: Pick<Evidence, 'request'>): Claim => ({
  about: questionOf(request),
  is: valueOf(wordsOf(value)),
})

/** Characters of an answer in which a claimed value is looked for, half at each end, and words of such a value. */
const MOST_SEARCHED = 2000
const MOST_WORDS = 8

export const praisedOf = ({ request, answer }: Pick<Evidence, 'request' | 'answer'>): Praised => ({
  about: questionOf(request),
  words: wordsOf(ends(answer, MOST_SEARCHED)),
})

/** Digests of all that the answer may state as a value. */
const valuesIn = ({ words }: Praised): Set<string> =>
  new Set(
    words.flatMap((_, from) =>
      Array.from({ length: Math.min(MOST_WORDS, words.length - from) }, (__, i) =>
        valueOf(words.slice(from, from + i + 1)),
      ),
    ),
  )

/**
 * The value in a hint that a model worded: numbers, names and rare words that the person said and that neither request
 * nor answer holds. Null: none.
 */
export const valueOfHint = (hint: string, evidence: Evidence, common: Common): string | null => {
  const said = new Set([...wordsOf(evidence.next?.user ?? ''), ...wordsOf(evidence.next?.tools ?? '')])
  const known = new Set([...wordsOf(evidence.request), ...wordsOf(evidence.answer)])
  const value = tokensOf(hint).filter(
    (token, i) =>
      said.has(wordOf(token)) &&
      !known.has(wordOf(token)) &&
      (token.kind === 'number' ||
        (token.kind === 'word' && ((i > 0 && /^\p{Lu}/u.test(token.raw)) || !common(hashText(token.norm))))),
  )
  return value.length === 0 ? null : value.map(({ raw }) => raw).join(' ')
}

/**
 * The person who claims: the API key or, without keys, the subject that the request names. All requests that name no
 * subject count as one person: their subject is the session's, and a client can open any number of sessions.
 */
type Asker = Pick<TurnState, 'key' | 'subject' | 'session'>
const personOf = ({ key, subject, session }: Asker): string =>
  digest(
    'person',
    key !== null ? `key ${key}` : subject === subjectOfSession(session) ? 'anyone' : `subject ${subject}`,
  )

/** `people`: how many claim the value, this one among them; `rivals`: how many the most claimed other value. */
type Agreement = { agreed: boolean; people: number; rivals: number }

const agreementOn = (table: ClaimTable, policy: string, claim: Claim, person: string, needed: number): Agreement => {
  const values = table.get(`${policy} ${claim.about}`)?.values ?? {}
  const people = new Set([...(values[claim.is] ?? []), person]).size
  const rivals = Math.max(0, ...Object.entries(values).flatMap(([is, of]) => (is === claim.is ? [] : [of.length])))
  return { agreed: people >= needed && people > rivals, people, rivals }
}

/** The verdict that records a claim and what was decided on it. */
const verdictOn = (claim: Claim, person: string, agreement: Agreement, needed: number): JudgeVerdict => ({
  judge: VALUES_JUDGE,
  value: null,
  note: noteOf(claim, person, agreement, needed),
})

const noteOf = (claim: Claim, person: string, { agreed, people, rivals }: Agreement, needed: number): string => {
  const explanation = `${people} of ${needed} people${rivals > 0 ? `, ${rivals} for another` : ''}`
  return `${agreed ? 'agreed' : 'withheld'}: value ${claim.is} of question ${claim.about} by ${person}; ${explanation}`
}

const NOTE = new RegExp(
  `^(agreed|withheld): value (\\w{${DIGEST}}) of question (\\w{${DIGEST}}) by (\\w{${DIGEST}});`,
  'u',
)

type Recorded = { agreed: boolean; is: string; about: string; person: string }
export const claimIn = (verdicts: readonly JudgeVerdict[]): Recorded | null => {
  const note = verdicts.find(({ judge }) => judge === VALUES_JUDGE)?.note
  const [, outcome, is, about, person] = NOTE.exec(note ?? '') ?? []
  return is === undefined || about === undefined || person === undefined
    ? null
    : { agreed: outcome === 'agreed', is, about, person }
}

/** People who must claim a value. */
export const LEAST_AGREEMENT = 2

/** The reason of a score that is withheld. */
const UNAGREED = 'unagreed'

/**
 * The judgement with the verdict on its claim, by the claims before it. A score that rests on a value that too few claim
 * is a skip: a complaint that names the value, and praise of an answer that holds a value that its person claims. The
 * verdict counts as a claim either way.
 */
export const withAgreement = (
  claims: ClaimTable,
  turn: Asker & Pick<TurnState, 'policy'>,
  result: Judged,
  needed: number,
): Judged => {
  const { reward, claim, praised } = result
  if (reward === null) return result
  const person = personOf(turn)
  const agreement = (one: Claim): Agreement => agreementOn(claims, turn.policy, one, person, needed)
  const on =
    reward > 0 && praised
      ? unagreedIn(praised, claim, ownValues(claims, turn.policy, praised.about, person), agreement)
      : claim
  if (!on) return result
  const decided = agreement(on)
  const verdicts = [...result.verdicts, verdictOn(on, person, decided, needed)]
  return decided.agreed
    ? { ...result, verdicts }
    : { verdicts, reward: null, judge: null, hint: null, hintJudge: null, reason: UNAGREED }
}

const ownValues = (claims: ClaimTable, policy: string, about: string, person: string): string[] =>
  Object.entries(claims.get(`${policy} ${about}`)?.values ?? {}).flatMap(([is, people]) =>
    people.includes(person) ? [is] : [],
  )

/** The first value of the person, the one just claimed before all, that the answer holds and that too few claim. */
const unagreedIn = (
  praised: Praised,
  claim: Claim | undefined,
  own: readonly string[],
  agreement: (claim: Claim) => Agreement,
): Claim | undefined => {
  const claimed = [...(claim ? [claim.is] : []), ...own].map((is) => ({ about: praised.about, is }))
  const unagreed = claimed.filter((one) => !agreement(one).agreed)
  if (unagreed.length === 0) return undefined
  const held = valuesIn(praised)
  return unagreed.find(({ is }) => held.has(is))
}

/** Folds a score that counts. `offset`: of the record, which orders the claims of a policy. */
export const foldClaim = (table: ClaimTable, event: Pick<ScoresEvent, 'verdicts' | 'policy'>, offset: number): void => {
  const claim = claimIn(event.verdicts)
  if (!claim) return
  const name = `${event.policy} ${claim.about}`
  const before = table.get(name)
  table.set(name, { at: offset, values: withClaim(before?.values ?? {}, claim) })
  if (!before && table.size > MOST_QUESTIONS) forgetQuestion(table, event.policy)
}

/**
 * The values with one more claim. Of a person with MOST_OWN_VALUES the first one is withdrawn. A new value beyond
 * MOST_VALUES takes the place of the first one that a single person claims; where there is none, it is not held.
 */
const withClaim = (values: Claims['values'], { is, person }: Recorded): Claims['values'] => {
  const people = values[is] ?? []
  if (people.includes(person) || people.length >= MOST_PEOPLE) return values
  const own = Object.keys(values).filter((value) => values[value]?.includes(person))
  const withdrawn = own.length >= MOST_OWN_VALUES ? own[0] : undefined
  const held = Object.entries(values).flatMap(([value, of]): [string, readonly string[]][] => {
    const left = value === withdrawn ? of.filter((one) => one !== person) : of
    return left.length === 0 ? [] : [[value, left]]
  })
  if (people.length === 0 && held.length >= MOST_VALUES) {
    const least = held.findIndex(([, of]) => of.length === 1)
    if (least < 0) return values
    held.splice(least, 1)
  }
  return { ...Object.fromEntries(held), [is]: [...people, person] }
}

/**
 * Forgets a question beyond MOST_QUESTIONS of a policy: of those with the fewest people the one with the oldest claim of
 * the person who has most of them, so that nobody's questions displace those of others.
 */
const forgetQuestion = (table: ClaimTable, policy: string): void => {
  let count = 0
  let fewest = Infinity
  const byPerson = new Map<string, { count: number; name: string; at: number }>()
  for (const [name, { at, values }] of table) {
    if (!name.startsWith(`${policy} `)) continue
    count += 1
    const people = new Set(Object.values(values).flat())
    if (people.size > fewest) continue
    if (people.size < fewest) byPerson.clear()
    fewest = people.size
    const [person = ''] = people
    const own = byPerson.get(person) ?? { count: 0, name, at }
    byPerson.set(person, { ...(at < own.at ? { name, at } : own), count: own.count + 1 })
  }
  if (count <= MOST_QUESTIONS) return
  const [most] = [...byPerson.values()].toSorted((a, b) => b.count - a.count || a.at - b.at)
  if (most) table.delete(most.name)
}
