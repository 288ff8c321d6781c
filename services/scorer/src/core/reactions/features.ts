/**
 * Features of a reaction: hashed word and character n-grams of what the person said and of what tools returned, and
 * how it relates to the request and the answer. A word that is not common in reactions stands as where it comes from:
 * `It's Canberra.` and `It's Oslo.` after `Sydney` are the same n-grams.
 */
import { hashPair, hashText } from './hash.ts'
import { senseFeatures, type Origin } from './sense.ts'
import { clausesOf, ends, tokensOf, type Token } from './text.ts'
import { toolFeatures } from './tools.ts'

/** What a judgement is made from. `tools`: what tools returned, in order, joined. */
export type Reaction = { request: string; answer: string; user: string; tools: string }

/** Raise it with every change of what features are made from. */
export const FEATURES_VERSION = 2

export const GROUPS = ['words', 'chars', 'last', 'context', 'relation', 'tools', 'sense'] as const
export type Group = (typeof GROUPS)[number]
/** Hashes by group, each once. */
export type Features = Record<Group, Uint32Array>

/** Whether a word, by hashText of its norm, is common in reactions; others are replaced by their origin. */
export type Common = (hash: number) => boolean

export const featuresOf = (reaction: Reaction, common: Common): Features => {
  const said = tokensOf(ends(reaction.user))
  const requestTokens = tokensOf(ends(reaction.request))
  const request = wordSet(requestTokens)
  const answerTokens = tokensOf(ends(reaction.answer))
  const answer = wordSet(answerTokens)
  const symbols = said.map((token) => symbolOf(token, request, answer, common))
  const words = new Set<number>()
  ngrams(
    symbols.map(({ hash }) => hash),
    1,
    words,
  )
  const last = new Set<number>()
  const clauses = clausesOf(said)
  const ending = clauses.at(-1)
  if (ending && clauses.length > 1) {
    const from = said.indexOf(ending[0]!)
    ngrams(
      symbols.slice(from, from + ending.length).map(({ hash }) => hash),
      2,
      last,
    )
    const first = clauses[0]!
    ngrams(
      symbols.slice(0, first.length).map(({ hash }) => hash),
      3,
      last,
    )
  }
  const context = new Set<number>()
  contextFeatures(said, symbols, { request, answer, answerTokens, clauses: clauses.length }, context)
  return {
    words: Uint32Array.from(words),
    chars: Uint32Array.from(charGrams(said)),
    last: Uint32Array.from(last),
    context: Uint32Array.from(context),
    relation: Uint32Array.from(relationFeatures(said, symbols, request)),
    tools: Uint32Array.from(toolFeatures(reaction.tools)),
    sense: Uint32Array.from(
      senseFeatures(
        said.map((token, i) => ({ ...token, hash: symbols[i]!.hash, origin: symbols[i]!.origin })),
        requestTokens,
        answerTokens,
      ),
    ),
  }
}

const wordSet = (tokens: readonly Token[]): Set<string> =>
  new Set(tokens.flatMap(({ kind, norm }) => (kind === 'word' || kind === 'number' ? [norm] : [])))

type Symbol_ = { hash: number; origin: Origin; kind: Token['kind'] }

const ORIGIN: Record<string, number> = Object.fromEntries(
  ['new', 'answer', 'request', 'both'].flatMap((origin) =>
    ['word', 'number', 'Name'].map((kind) => [`${origin} ${kind}`, hashText(`<${origin} ${kind}>`)]),
  ),
)

const symbolOf = (
  { raw, norm, kind }: Token,
  request: ReadonlySet<string>,
  answer: ReadonlySet<string>,
  common: Common,
): Symbol_ => {
  const hash = hashText(norm)
  if (kind === 'sign' || kind === 'emoji') return { hash, origin: 'sign', kind }
  if (kind === 'word' && common(hash)) return { hash, origin: 'common', kind }
  const inRequest = request.has(norm)
  const inAnswer = answer.has(norm)
  const origin = inRequest ? (inAnswer ? 'both' : 'request') : inAnswer ? 'answer' : 'new'
  const form = kind === 'number' ? 'number' : /^\p{Lu}/u.test(raw) ? 'Name' : 'word'
  return { hash: ORIGIN[`${origin} ${form}`]!, origin, kind }
}

const BEGIN = hashText('<begin>')
const END = hashText('<end>')

/** Uni-, bi- and trigrams with marks at both ends, and pairs with one word between. */
const ngrams = (hashes: readonly number[], tag: number, into: Set<number>): void => {
  if (hashes.length === 0) return
  const all = [BEGIN, ...hashes, END]
  for (let i = 0; i < all.length; i += 1) {
    const one = hashPair(tag, all[i]!)
    if (i > 0 && i < all.length - 1) into.add(one)
    if (i + 1 >= all.length) continue
    const two = hashPair(one, all[i + 1]!)
    into.add(two)
    if (i + 2 >= all.length) continue
    into.add(hashPair(two, all[i + 2]!))
    into.add(hashPair(hashPair(one, 7), all[i + 2]!))
  }
}

/** Of each word of 3 characters and more the runs of 3 to 5, edges marked: what typos and inflections leave. */
const charGrams = (tokens: readonly Token[]): Set<number> => {
  const grams = new Set<number>()
  for (const { kind, norm } of tokens) {
    if (kind === 'emoji') grams.add(hashPair(11, norm.codePointAt(0)! >> 3))
    if (kind !== 'word' || norm.length < 3 || norm.length > 24) continue
    const word = `^${norm}$`
    for (let size = 3; size <= 5; size += 1)
      for (let at = 0; at + size <= word.length; at += 1) grams.add(hashText(word.slice(at, at + size), 13))
  }
  return grams
}

const bucket = (value: number, bounds: readonly number[]): number => bounds.filter((bound) => value > bound).length
const LENGTHS = [0, 1, 2, 3, 5, 8, 13, 25, 60]
const SHARES = [0, 0.2, 0.4, 0.6, 0.8, 0.99]

type About = {
  request: ReadonlySet<string>
  answer: ReadonlySet<string>
  answerTokens: readonly Token[]
  clauses: number
}

const contextFeatures = (
  said: readonly Token[],
  symbols: readonly Symbol_[],
  { request, answer, answerTokens, clauses }: About,
  into: Set<number>,
): void => {
  if (said.length === 0) return
  const add = (name: string, ...values: (number | string | boolean)[]): void => {
    into.add(hashText(`${name}:${values.map(String).join(':')}`, 17))
  }
  const content = said.filter(({ kind }) => kind === 'word' || kind === 'number')
  const length = bucket(content.length, LENGTHS)
  const set = new Set(content.map(({ norm }) => norm))
  const share = (of: ReadonlySet<string>, within: ReadonlySet<string>): number =>
    of.size === 0 ? 0 : [...of].filter((word) => within.has(word)).length / of.size
  const repeated = bucket(share(request, set), SHARES)
  const fromRequest = bucket(share(set, request), SHARES)
  const fromAnswer = bucket(share(set, answer), SHARES)
  const numbers = (origin: Origin): boolean =>
    symbols.some((symbol) => symbol.kind === 'number' && symbol.origin === origin)
  const asks = said.at(-1)!.raw.includes('?')
  const count = (origin: Origin): number => symbols.filter((symbol) => symbol.origin === origin).length
  const fresh = bucket(count('new'), [0, 1, 2, 4, 8])
  const begin = hashText(content[0]?.norm ?? '')
  add('length', length)
  add('length asks', length, asks)
  add('repeated', repeated)
  add('repeated length', repeated, bucket(content.length - request.size, [-3, -1, 0, 2, 5, 10]))
  add('from request', fromRequest, length)
  add('from answer', fromAnswer, length)
  add('fresh', fresh, asks)
  add('fresh length', fresh, length)
  add('common', bucket(symbols.length === 0 ? 0 : count('common') / symbols.length, SHARES), length)
  add('numbers', numbers('new'), numbers('answer'), numbers('request'), numbers('both'), asks)
  add('clauses', Math.min(clauses, 4))
  add('answer length', bucket(answerTokens.length, [5, 12, 30, 80, 200]))
  const last = answerTokens.at(-1)
  const answerAsks = last?.raw.includes('?') === true
  add('answer asks', answerAsks, begin)
  add('answer asks', answerAsks, length)
  if (said.some(({ raw }) => raw === '`')) add('code')
  if (said.some(({ raw }) => raw === '\n'))
    add('lines', bucket(said.filter(({ raw }) => raw === '\n').length, [1, 4, 12]))
  const shouted = content.filter(({ raw }) => raw.length > 2 && /^\p{Lu}+$/u.test(raw)).length
  if (shouted > 0) add('shouted', bucket(shouted, [1, 3]))
  if (/^\p{Ll}/u.test(said[0]!.raw)) add('lower')
}

/** The request again, or a value in place of that of the answer: few features, so that each weighs much. */
const relationFeatures = (
  said: readonly Token[],
  symbols: readonly Symbol_[],
  request: ReadonlySet<string>,
): Set<number> => {
  const words = wordSet(said)
  const features = new Set<number>()
  if (words.size === 0) return features
  const common = [...request].filter((word) => words.has(word)).length
  const alike = bucket(common / (request.size + words.size - common), [0.3, 0.5, 0.7, 0.9])
  features.add(hashText(`alike:${alike}:${bucket(request.size, [1, 3, 6])}`, 29))
  const fresh = symbols.filter(({ origin }) => origin === 'new')
  const number = fresh.some(({ kind }) => kind === 'number')
  const asks = said.at(-1)!.raw.includes('?')
  features.add(hashText(`value:${number}:${Math.min(fresh.length, 3)}:${bucket(words.size, [1, 2, 4, 7])}:${asks}`, 29))
  return features
}
