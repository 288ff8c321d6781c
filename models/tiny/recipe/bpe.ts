/**
 * Byte-level BPE, trained on the corpus and written as a Hugging Face `tokenizer.json`. All 256 bytes are
 * tokens, so any text round-trips. The numbers 0-120 are single tokens with and without a space before
 * them: their merges come first.
 */

/** GPT-2's split with at most three digits in a piece; a piece keeps the space before it. */
const SPLIT = String.raw`'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
const PATTERN = new RegExp(SPLIT, 'gu')

export const CONTROL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'] as const
/** Kept in decoded text, since they are part of what an answer says. */
export const MARKS = ['<tool_call>', '</tool_call>', '<tools>', '</tools>'] as const
const ADDED: readonly string[] = [...CONTROL, ...MARKS]
const LARGEST_NUMBER = 120

/** Printable stand-ins for bytes (GPT-2's table): visible Latin-1 as itself, the rest from U+0100 on. */
const BYTE_CHARS: readonly string[] = (() => {
  const visible = (b: number): boolean => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255)
  let spare = 256
  return Array.from({ length: 256 }, (_, b) => String.fromCharCode(visible(b) ? b : spare++))
})()
const UTF8 = new TextEncoder()
const inBytes = (piece: string): string[] => Array.from(UTF8.encode(piece), (b) => BYTE_CHARS[b]!)

export type Bpe = { vocabulary: readonly string[]; merges: readonly (readonly [string, string])[] }

function numberMerges(): [string, string][] {
  // 11 before 10, or 110 would split as 1 10.
  const merges: [string, string][] = [
    ['1', '1'],
    ['1', '0'],
  ]
  for (let n = 12; n <= 99; n++) merges.push([String(n)[0]!, String(n)[1]!])
  for (let n = 100; n <= LARGEST_NUMBER; n++) merges.push([String(n).slice(0, 2), String(n)[2]!])
  const space = BYTE_CHARS[32]!
  for (let n = 0; n <= LARGEST_NUMBER; n++) merges.push([space, String(n)])
  return merges
}

function applied(symbols: readonly string[], left: string, right: string): string[] {
  const out: string[] = []
  for (let i = 0; i < symbols.length; i++) {
    if (symbols[i] === left && symbols[i + 1] === right) {
      out.push(left + right)
      i++
    } else out.push(symbols[i]!)
  }
  return out
}

/**
 * Merges the most frequent pair until the vocabulary has `size` tokens or no pair occurs `minimum` times.
 * Ties go to the pair that sorts first, so that the result depends on the counts alone.
 */
export function trainBpe(texts: Iterable<string>, size: number, minimum: number): Bpe {
  const counts = new Map<string, number>()
  for (const text of texts)
    for (const piece of text.match(PATTERN) ?? []) counts.set(piece, (counts.get(piece) ?? 0) + 1)
  const merges: [string, string][] = numberMerges()
  const vocabulary = [...ADDED, ...BYTE_CHARS, ...merges.map(([l, r]) => l + r)]
  let words = [...counts]
    .map(([piece, count]) => {
      let symbols = inBytes(piece)
      if (/\p{N}/u.test(piece)) for (const [l, r] of merges) symbols = applied(symbols, l, r)
      return { symbols, count }
    })
    .filter((word) => word.symbols.length > 1)
  while (vocabulary.length < size) {
    const pairs = new Map<string, number>()
    for (const { symbols, count } of words) {
      for (let i = 0; i + 1 < symbols.length; i++) {
        const pair = `${symbols[i]} ${symbols[i + 1]}`
        pairs.set(pair, (pairs.get(pair) ?? 0) + count)
      }
    }
    let best = '',
      most = minimum - 1
    for (const [pair, count] of pairs)
      if (count > most || (count === most && best !== '' && pair < best)) {
        best = pair
        most = count
      }
    if (best === '') break
    const [left, right] = best.split(' ') as [string, string]
    merges.push([left, right])
    vocabulary.push(left + right)
    words = words
      .map((word) => ({ symbols: applied(word.symbols, left, right), count: word.count }))
      .filter((word) => word.symbols.length > 1)
  }
  return { vocabulary, merges }
}

/** `tokenizer.json` as Hugging Face's libraries load it. */
export function tokenizerJson(bpe: Bpe): object {
  return {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: ADDED.map((content, id) => ({
      id,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: (CONTROL as readonly string[]).includes(content),
    })),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [
        { type: 'Split', pattern: { Regex: SPLIT }, behavior: 'Isolated', invert: false },
        { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    post_processor: null,
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: {
      type: 'BPE',
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(bpe.vocabulary.map((token, id) => [token, id])),
      merges: bpe.merges.map(([l, r]) => [l, r]),
    },
  }
}

/**
 * Encoder for the recipe, which reads millions of tokens: pieces are remembered. Control and mark tokens in
 * `text` are recognised. Gives the ids that Hugging Face's tokenizers give (a test asserts it).
 */
export function encoder(bpe: Bpe): (text: string) => number[] {
  const ids = new Map(bpe.vocabulary.map((token, id) => [token, id]))
  const ranks = new Map(bpe.merges.map(([l, r], rank) => [`${l} ${r}`, rank]))
  const remembered = new Map<string, number[]>()
  const controls = new RegExp(`(${ADDED.map((t) => t.replace(/[|/]/g, String.raw`\$&`)).join('|')})`)
  const encodePiece = (piece: string): number[] => {
    const known = remembered.get(piece)
    if (known !== undefined) return known
    let symbols = inBytes(piece)
    for (;;) {
      let at = -1,
        lowest = Infinity
      for (let i = 0; i + 1 < symbols.length; i++) {
        const rank = ranks.get(`${symbols[i]} ${symbols[i + 1]}`)
        if (rank !== undefined && rank < lowest) {
          lowest = rank
          at = i
        }
      }
      if (at < 0) break
      symbols = applied(symbols, symbols[at]!, symbols[at + 1]!)
    }
    const found = symbols.map((symbol) => ids.get(symbol)!)
    remembered.set(piece, found)
    return found
  }
  return (text) =>
    text.split(controls).flatMap((part) => {
      const control = ids.get(part)
      if (control !== undefined && control < ADDED.length) return [control]
      return (part.match(PATTERN) ?? []).flatMap(encodePiece)
    })
}
