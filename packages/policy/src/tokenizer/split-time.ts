/** Whether patterns of a tokenizer split texts in time. JavaScript's patterns can take a time exponential in the text's length. */
import { createContext, Script } from 'node:vm'

/** For all texts together. Those of usual models take a few milliseconds; others would not end. */
const LIMIT_MS = 10_000

/** Runs of one kind of character, which nested repetitions divide in every way, and an end that they do not match. */
const TEXTS: readonly string[] = [
  'a',
  'A',
  'é',
  '中',
  '0',
  ' ',
  '\n',
  '!',
  "'",
  '_',
  'aA',
  'a0',
  'a ',
  ' a',
  '\n ',
].flatMap((text) => ['', '!', 'a', '\u0001'].map((end) => text.repeat(64) + end))

const script = new Script('work()')

/** Whether `encode` ends for all of them within `limitMs`, with a result or an error. */
export const splitsInTime = (encode: (text: string) => unknown, limitMs = LIMIT_MS): boolean => {
  const work = (): void => {
    for (const text of TEXTS) {
      try {
        encode(text)
      } catch {
        // Not every vocabulary has these characters. What ends the work at its limit is not caught here.
      }
    }
  }
  try {
    script.runInContext(createContext({ work }), { timeout: limitMs })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return false
    throw error
  }
}
