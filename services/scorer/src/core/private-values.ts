/**
 * Values of a person in a text that is kept, shown in SQL and learned from: numbers of cards and accounts, keys,
 * addresses, telephone numbers. Found by their form, so a name or a street is not found; what is found is not always
 * one.
 */

/** 12 to 19 digits of a card's number, the last one a check (Luhn). */
const isCard = (digits: string): boolean => {
  if (digits.length < 12 || digits.length > 19) return false
  const sum = [...digits]
    .reverse()
    .map(Number)
    .reduce((total, digit, i) => total + (i % 2 === 0 ? digit : digit > 4 ? 2 * digit - 9 : 2 * digit), 0)
  return sum % 10 === 0
}

/**
 * Whether neighbours among groups of digits are a card's number; others may stand before and after it, as its date does.
 * With other separators than a blank or a hyphen, in groups as on a card: short numbers of a list are none.
 */
const holdsCard = (text: string): boolean => {
  const groups = [...text.matchAll(/\d+/gu)].map(({ 0: digits, index }) => ({ digits, from: index }))
  return groups.some((_, first) => {
    let digits = ''
    let usual = true
    for (const [count, { digits: own, from }] of groups.slice(first, first + 19).entries()) {
      const before = groups[first + count - 1]
      if (count > 0) usual &&= /^[ -]$/u.test(text.slice(before!.from + before!.digits.length, from))
      if ((digits += own).length > 19) return false
      if ((usual || areOfCard(groups.slice(first, first + count + 1))) && isCard(digits)) return true
    }
    return false
  })
}

const areOfCard = (groups: readonly { digits: string }[]): boolean =>
  groups.length >= 3 &&
  groups.length <= 5 &&
  groups.every(({ digits: { length } }, i) => length >= (i === 0 ? 4 : 3) && length <= 6)

const isDate = (text: string): boolean => /^\d{4}-\d{2}-\d{2}$/u.test(text)
const digitsIn = (text: string): number => text.replace(/\D/gu, '').length

const FORMS: readonly { pattern: RegExp; is?: (found: string) => boolean }[] = [
  { pattern: /[^\s@<>"']+@[^\s@<>"']+\.[^\s@<>"'.]{2,}/gu },
  {
    pattern:
      /\b[a-z][a-z0-9+.-]*:\/\/|\bwww\.|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai|app|co|de|uk|eu|gov|edu|info)\b/giu,
  },
  {
    pattern:
      /-----BEGIN|\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeprs]|hf|npm|pypi|AKIA|ASIA|AIza|ya29|eyJ)[-_.A-Za-z0-9]{12,}/gu,
  },
  // A run that mixes letters and digits and is longer than words and names of products are.
  { pattern: /[A-Za-z0-9+/_=-]{20,}/gu, is: (found) => /\d/u.test(found) && /[A-Za-z]/u.test(found) },
  { pattern: /\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b/gu },
  { pattern: /\d+(?:[^\p{L}\p{N}]{1,3}\d+)*/gu, is: holdsCard },
  // Groups with a blank, a hyphen, a dot or brackets between them; or a plus before all.
  {
    pattern: /\+\d[\d ().-]{5,}\d|\(?\d{2,5}\)?(?:[ .-]\(?\d{2,5}\)?){1,5}/gu,
    is: (found) => digitsIn(found) >= 7 && !isDate(found) && !/^\d+\.\d+$/u.test(found),
  },
]

/** A line longer than this is not looked through: patterns are quick, a book is not a hint. */
const LONGEST = 2000

const isDigit = (code: number): boolean => /^\p{Nd}$/u.test(String.fromCodePoint(code))

/** The value of a decimal digit of any script. Unicode has the ten of each next to each other, 0 first. */
const valueOf = (digit: string): string => {
  const code = digit.codePointAt(0)!
  let before = 0
  while (isDigit(code - before - 1)) before += 1
  return String(before % 10)
}

/**
 * With the digits, blanks and hyphens that the forms know, since others look the same, and without what is not seen or only
 * changes the character before it: zero-width and format characters, variation selectors, marks.
 */
const usual = (text: string): string =>
  text
    .normalize('NFKC')
    .replace(/[\p{Cf}\p{Default_Ignorable_Code_Point}\p{M}]/gu, '')
    .replace(/(?![0-9])\p{Nd}/gu, valueOf)
    .replace(/\p{Pd}/gu, '-')

const holdsPrivate = (text: string): boolean => {
  if (text.length > LONGEST) return true
  const said = usual(text)
  // A character may become several.
  if (said.length > 2 * LONGEST) return true
  return FORMS.some(({ pattern, is }) => [...said.matchAll(pattern)].some(([found]) => is === undefined || is(found)))
}

/** The sentences of a hint without those that hold such a value; null where none is left. */
export const publicHint = (hint: string | null): string | null => {
  if (hint === null || !holdsPrivate(hint)) return hint
  if (hint.length > LONGEST) return null
  const kept = hint
    .split(/(?<=[.!?])\s+/u)
    .filter((sentence) => !holdsPrivate(sentence))
    .join(' ')
  // A value may stand across what looked like the end of a sentence.
  return kept === '' || holdsPrivate(kept) ? null : kept
}
