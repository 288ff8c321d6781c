/** A text as tokens: what the features of a reaction are made of. */

/** Characters of one text that are read. Of a longer one the first and the last half of so many; the middle is cut. */
export const MOST = 2000
/**
 * Characters of one text that are read for values and repetition: more than a model as judge is shown. The texts are a
 * client's, megabytes long if it wants, and are read while nothing else is.
 */
export const MOST_READ = 16_384
export const ends = (text: string, most = MOST): string =>
  text.length <= most ? text : `${text.slice(0, most / 2)}\n${text.slice(-most / 2)}`

/**
 * `raw`: as written; `norm`: lower case, without apostrophes, letters and signs that are repeated more than twice cut
 * to two.
 */
export type Token = { raw: string; norm: string; kind: 'word' | 'number' | 'sign' | 'emoji' }

const TOKEN =
  /(\p{N}+(?:[.,:/-]\p{N}+)*)|([\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー])|([\p{L}\p{M}_]+(?:['’][\p{L}\p{M}]+)*)|(\p{Extended_Pictographic}|[\u{1F1E6}-\u{1F1FF}])|([!?.。！？…]+|[,;:、，；：\n()"“”`*#<>=+%/\\|~^-])/gu

export const tokensOf = (text: string): Token[] => {
  const tokens: Token[] = []
  for (const [raw, number, ideograph, word, emoji] of text.normalize('NFKC').matchAll(TOKEN)) {
    const kind =
      number !== undefined
        ? 'number'
        : ideograph !== undefined || word !== undefined
          ? 'word'
          : emoji !== undefined
            ? 'emoji'
            : 'sign'
    tokens.push({ raw, norm: normOf(raw), kind })
  }
  return tokens
}

const normOf = (raw: string): string =>
  raw
    .toLowerCase()
    .replace(/['’]/gu, '')
    .replace(/(.)\1{2,}/gu, '$1$1')

/** Words after which a clause outweighs the one before it. */
const TURNS = new Set(
  `but however although though except yet aber jedoch allerdings doch mais cependant toutefois pero sino mas porém
ma però tuttavia लेकिन मगर परंतु`.split(/\s+/u),
)
const TURNS_CJK = new Set(['但', 'でも', 'けど'])

/** Runs of tokens between ends of sentences and words that turn ("but"), which begin a clause. None is empty. */
export const clausesOf = (tokens: readonly Token[]): Token[][] => {
  const clauses: Token[][] = []
  let clause: Token[] = []
  const close = (): void => {
    if (clause.some(({ kind }) => kind !== 'sign')) clauses.push(clause)
    else clauses.at(-1)?.push(...clause)
    clause = []
  }
  for (const [i, token] of tokens.entries()) {
    const next = tokens[i + 1]
    if (TURNS.has(token.norm) || TURNS_CJK.has(token.norm) || TURNS_CJK.has(token.norm + (next?.norm ?? ''))) close()
    clause.push(token)
    if (token.kind === 'sign' && /^[!?.;\n。！？…]/u.test(token.raw)) close()
  }
  close()
  return clauses
}
