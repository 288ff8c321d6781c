/** Features of what tools returned: n-grams of words with counts as zero or not, and what programs say at their end. */
import { hashPair, hashText } from './hash.ts'
import { ends, tokensOf, type Token } from './text.ts'

/** Characters of tools' results that are read: half at each end. */
const MOST_TOOLS = 4000

const SIGNALS: readonly (readonly [string, RegExp])[] = [
  ['exit zero', /\bexit(?:ed)?(?: with)?(?: (?:code|status))?[ :=]*0\b/iu],
  ['exit other', /\bexit(?:ed)?(?: with)?(?: (?:code|status))?[ :=]*-?[1-9]\d*\b/iu],
  [
    'some failed',
    /\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?|errors?)\b|\b(?:fail(?:ed|ures?)?|errors?)[:=]? +[1-9]/iu,
  ],
  [
    'none failed',
    /\b(?:0|no) (?:tests? )?(?:failed|failing|failures?|errors?|problems?|issues?)\b|\b(?:fail(?:ed|ures?)?|errors?)[:=]? +0\b/iu,
  ],
  ['some passed', /\b[1-9]\d* (?:tests? )?(?:passed|passing|ok)\b|\bpass(?:ed)?[:=]? +[1-9]/iu],
  ['traceback', /^Traceback \(most recent|^[ \t]+at .{1,300}:\d+:\d+\)?$|panicked at|stack trace/imu],
  ['code of an error', /\berror(?: ?\[?[A-Z]{1,3}\d{2,5}\]?)\b|\b(?:TS|E|CS|C)\d{4}\b/u],
  ['error', /^(?:\w*Error|error|fatal|ERR!|E:|panic)\b/imu],
  ['pass', /\bPASS(?:ED)?\b|^ok\b|✓|✔/mu],
  ['fail', /\bFAIL(?:ED)?\b|^not ok\b|✗|✘|✖/mu],
  ['away', /\b(?:ETIMEDOUT|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|timed? ?out|temporarily|rate limit|50[0234]|429)\b/iu],
  ['missing', /\b(?:ENOENT|no such file|not found|cannot find|does not exist|command not found|404)\b/iu],
  ['done', /\b(?:success(?:ful(?:ly)?)?|succeeded|compiled|deployed|completed|updated|created|saved|written)\b/iu],
]

export const toolFeatures = (tools: string): Set<number> => {
  const features = new Set<number>()
  if (tools.trim() === '') return features
  const text = ends(tools, MOST_TOOLS)
  const found = SIGNALS.filter(([, pattern]) => pattern.test(text)).map(([name]) => hashText(name, 19))
  for (const [i, one] of found.entries()) {
    features.add(one)
    for (const other of found.slice(i + 1)) features.add(hashPair(one, other))
  }
  if (found.length === 0) features.add(hashText('no signal', 19))
  features.add(hashText(`lines ${Math.min(6, Math.ceil(Math.log2(text.split('\n').length)))}`, 19))
  const tokens = tokensOf(text)
  let before = hashText('<begin>', 23)
  for (const token of tokens) {
    const one = hashText(wordOf(token), 23)
    features.add(one)
    features.add(hashPair(before, one))
    before = one
  }
  features.add(hashPair(before, hashText('<end>', 23)))
  return features
}

const wordOf = ({ kind, norm }: Token): string =>
  kind === 'number' ? (/^0+$/u.test(norm) ? '<zero>' : '<number>') : norm
