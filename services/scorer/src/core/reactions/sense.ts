/** What a negation reaches, what kind of answer was given, and how the reaction's values and words stand to it. */
import { hashPair, hashText } from './hash.ts'
import type { Token } from './text.ts'

const NOT = new Set(
  `not no dont doesnt didnt isnt arent wasnt werent wont cant cannot couldnt shouldnt wouldnt hasnt havent never nothing
none without nor neither aint nicht kein keine keinen nie ohne pas jamais sans rien nunca sin nada não sem non mai senza
niet geen`.split(/\s+/u),
)
/** Words behind a negation that it is taken to reach, up to a sign. */
const REACH = 4

export type Origin = 'common' | 'new' | 'answer' | 'request' | 'both' | 'sign'
/** A token of the reaction: where its word comes from, and its hash as n-grams have it. */
export type Said = Token & { origin: Origin; hash: number }

const bucket = (value: number, bounds: readonly number[]): number => bounds.filter((bound) => value > bound).length

export const senseFeatures = (
  said: readonly Said[],
  request: readonly Token[],
  answer: readonly Token[],
): Set<number> => {
  const features = new Set<number>()
  if (said.length === 0) return features
  const add = (...parts: (string | number | boolean)[]): void => void features.add(hashText(parts.join(':'), 41))
  negated(said, features)
  answerKind(said, request, answer, features, add)
  contrast(said, request, answer, add)
  origins(said, add)
  return features
}

type Add = (...parts: (string | number | boolean)[]) => void

const negated = (said: readonly Said[], into: Set<number>): void => {
  const mark = hashText('not', 43)
  let left = 0
  for (const { kind, norm, hash } of said) {
    if (kind === 'sign') left = 0
    else if (NOT.has(norm)) left = REACH
    else if (left > 0) {
      left -= 1
      into.add(hashPair(mark, hash))
    }
  }
}

const ASKING = /^(?:what|who|how|why|when|where|which|is|are|do|does|can)$/u

/** An action that was taken ("Added …", "I fixed …") or a fact; and how the reaction begins after it. */
const answerKind = (
  said: readonly Said[],
  request: readonly Token[],
  answer: readonly Token[],
  into: Set<number>,
  add: Add,
): void => {
  const first = answer.find(({ kind }) => kind === 'word')?.norm ?? ''
  const kind = /^(?:i|ive|im|done|ok|we)$/u.test(first)
    ? 'I'
    : /(?:ed|ing)$/u.test(first)
      ? first.slice(-3)
      : first.length < 3
        ? first
        : 'x'
  const asked = request.some(({ raw }) => raw.includes('?')) || ASKING.test(request[0]?.norm ?? '')
  const asks = said.at(-1)!.raw.includes('?')
  add('kind', kind, asked, asks, bucket(said.length, [2, 5, 10, 20]))
  const quotes = answer.some(({ raw }) => /["“”]/u.test(raw))
  add('quotes', kind, quotes, asks)
  const numbers = answer.some((token) => token.kind === 'number')
  add('numbers', numbers, bucket(answer.length, [7, 24]), asked, asks)
  for (const about of [`answer ${kind}`, `asked ${asked}`]) {
    const one = hashPair(hashText(about, 47), said[0]!.hash)
    into.add(one)
    if (said[1]) into.add(hashPair(one, said[1].hash))
  }
}

const valuesOf = (tokens: readonly Token[]): number[] =>
  tokens
    .flatMap(({ kind, norm }) => (kind === 'number' ? [Number(norm.replaceAll(',', ''))] : []))
    .filter(Number.isFinite)

/** A number near that of the answer, words of the request again or of the answer, a word that is like one of its words. */
const contrast = (said: readonly Said[], request: readonly Token[], answer: readonly Token[], add: Add): void => {
  const inAnswer = new Set(answer.map(({ norm }) => norm))
  const inRequest = new Set(request.map(({ norm }) => norm))
  const given = valuesOf(answer)
  const fresh = valuesOf(said.filter(({ norm }) => !inAnswer.has(norm) && !inRequest.has(norm)))
  const near = fresh.some((value) => given.some((other) => Math.abs(value - other) <= Math.max(1, Math.abs(other)) / 4))
  const long = said.length > 8
  add('values', Math.min(given.length, 2), Math.min(fresh.length, 2), near, long)
  add(
    'same value',
    said.some(({ kind, norm }) => kind === 'number' && inAnswer.has(norm)),
    fresh.length > 0,
  )
  const words = said.filter(({ kind }) => kind === 'word').map(({ norm }) => norm)
  const repeated = words.filter((word) => inRequest.has(word) && !inAnswer.has(word)).length
  const quoted = words.filter((word) => inAnswer.has(word) && !inRequest.has(word)).length
  const both = words.filter((word) => inAnswer.has(word) && inRequest.has(word)).length
  add('overlap', Math.min(repeated, 3), Math.min(quoted, 3), Math.min(both, 3))
  const share = (count: number): number => bucket(count / (words.length + 1), [0.01, 0.2, 0.4, 0.6])
  add('overlap share', share(repeated), share(quoted))
  const begins = new Set([...inAnswer].filter((word) => word.length > 3).map((word) => word.slice(0, 3)))
  const like = words.some((word) => word.length > 3 && !inAnswer.has(word) && begins.has(word.slice(0, 3)))
  add('like', like, long)
}

/** Where the words come from, in order: "not" before a word of the answer, a new word behind one. */
const origins = (said: readonly Said[], add: Add): void => {
  const first = said[0]!
  add('begins', first.origin, first.kind, said[1]?.kind === 'sign' ? said[1].raw[0]! : '')
  for (const [i, { norm }] of said.entries())
    if (NOT.has(norm) && said[i + 1]) add('not', said[i + 1]!.origin, said[i + 2]?.origin ?? '')
  const runs = said
    .map(({ origin, kind, raw }) => (origin === 'sign' ? raw[0]! : kind === 'number' ? `${origin}#` : origin))
    .filter((one, i, all) => one !== all[i - 1])
  const all = ['<begin>', ...runs, '<end>']
  for (const size of [3, 4]) for (let i = 0; i + size <= all.length; i += 1) add('run', ...all.slice(i, i + size))
}
