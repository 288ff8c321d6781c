/** The value that a correction names: "it's Canberra", "12.69, not 12.96". */
import { ends, MOST_READ, tokensOf, type Token } from './text.ts'
import { hashText } from './hash.ts'
import type { Common, Reaction } from './features.ts'

/** Characters of a person's that a hint quotes. */
export const LONGEST_QUOTE = 60
/** Tokens of a correction: in more, what is the value cannot be told. */
const LONGEST = 40

const NOT = new Set(['not', 'isnt', 'nicht', 'pas', 'no', 'não', 'non', '不是', 'नहीं', 'instead', 'statt'])
/** Signs inside a value: `3, 2, 1`, `10:30`, `a/b`. */
const WITHIN = new Set([',', '-', '/', ':', '.', '%', '°', '+'])

type Span = { from: number; to: number; number: boolean }

/**
 * The last part of the person's words that the answer does not hold and that is a number, a name or a rare word; null:
 * none.
 */
export const valueIn = ({ user, request, answer }: Omit<Reaction, 'tools'>, common: Common): string | null => {
  const text = ends(user, MOST_READ).normalize('NFKC')
  const tokens = tokensOf(text)
  if (tokens.length === 0 || tokens.length > LONGEST) return null
  const answered = tokensOf(ends(answer, MOST_READ))
  const inAnswer = new Set(answered.map(({ norm }) => norm))
  const inRequest = new Set(tokensOf(ends(request, MOST_READ)).map(({ norm }) => norm))
  const order = ` ${answered.flatMap(({ kind, norm }) => (kind === 'number' ? [norm] : [])).join(' ')} `
  const isValue = (token: Token, i: number): boolean => {
    if (token.kind === 'number') return !inAnswer.has(token.norm) || isOtherOrder(tokens, i, order)
    if (token.kind !== 'word' || inAnswer.has(token.norm)) return false
    if (/^\p{Lu}/u.test(token.raw) && token.raw.length > 1 && i > 0 && !endsSentence(tokens[i - 1]!)) return true
    return !common(hashText(token.norm)) && !inRequest.has(token.norm) && /^\p{L}/u.test(token.raw)
  }
  const spans: Span[] = []
  for (let i = 0; i < tokens.length; i += 1) {
    if (!isValue(tokens[i]!, i)) continue
    let to = i
    while (to + 1 < tokens.length) {
      const [next, after] = [tokens[to + 1]!, tokens[to + 2]]
      if (isValue(next, to + 1)) to += 1
      else if (WITHIN.has(next.raw) && after && isValue(after, to + 2) && !isPause(tokens[to]!, next, after)) to += 2
      else break
    }
    const before = tokens[i - 1]?.norm ?? ''
    if (!NOT.has(before) || i === 1) spans.push({ from: i, to, number: tokens[i]!.kind === 'number' })
    i = to
  }
  const alike = spans.filter(({ number }) => number === /\p{N}/u.test(answer))
  const span = (alike.length > 0 ? alike : spans).at(-1)
  if (!span) return null
  const quoted = quote(text, tokens, span)
  return quoted === '' || quoted.length > LONGEST_QUOTE ? null : quoted
}

const endsSentence = ({ raw }: Token): boolean => /^[.!?\n。！？…]/u.test(raw)

/** Between a word and a number a comma or a full stop separates: "the climbing. 2.1 GB" are two things. */
const isPause = (before: Token, { raw }: Token, after: Token): boolean =>
  (raw === ',' || raw === '.') && before.kind !== after.kind

/** Of one ideograph, which is seldom a whole word, it cannot be told that it is a value. */
export const isSingleIdeograph = (value: string): boolean =>
  /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー]$/u.test(value)

/** Numbers of the answer in another order are another value. */
const isOtherOrder = (tokens: readonly Token[], at: number, order: string): boolean => {
  let from = at
  while (tokens[from - 1]?.raw === ',' && tokens[from - 2]?.kind === 'number') from -= 2
  const run: string[] = []
  for (let i = from; tokens[i]?.kind === 'number'; i += 2) {
    run.push(tokens[i]!.norm)
    if (tokens[i + 1]?.raw !== ',') break
  }
  return run.length > 1 && !order.includes(` ${run.join(' ')} `)
}

/** As it stands in the text. Tokens are found one after another, so that each is looked for behind the one before. */
const quote = (text: string, tokens: readonly Token[], { from, to }: Span): string => {
  let at = 0
  let start = 0
  for (let i = 0; i <= to; i += 1) {
    at = text.indexOf(tokens[i]!.raw, at)
    if (i === from) start = at
    at += tokens[i]!.raw.length
  }
  const unit = /^ ?[°%€$£]\p{L}?/u.exec(text.slice(at))?.[0] ?? ''
  const sign = /[-−$€£]$/u.exec(text.slice(0, start))?.[0] ?? ''
  return (sign + text.slice(start, at) + unit).trim()
}
