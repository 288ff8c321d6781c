/**
 * Content probes: a question with what a right answer must hold and must not hold. Pure and free of the
 * corpus, so that whoever gates a candidate can check answers with `probes.jsonl` and this file alone.
 *
 * The check is strict: the right answer is there, it is the last of its sort that the text names, and
 * nothing of the same sort contradicts it. Style (bold, lists, boxes, length, warmth) does not matter.
 */
export type Expect =
  /** `value` is the last number of the answer; other numbers may only be those of `given`. */
  | { kind: 'number'; value: number; given: readonly number[] }
  /** The answer's last numbers are `value` in this order, and it names no number outside it. */
  | { kind: 'sequence'; value: readonly number[] }
  /** `value` is the last of its sort that is named; of `rivals` only those in `given` may be named. */
  | { kind: 'word'; value: string; rivals: readonly string[]; given: readonly string[] }
  /** Exactly `count` different words of `members` and none of `rivals`. */
  | { kind: 'members'; count: number; members: readonly string[]; rivals: readonly string[] }

export type Probe = { question: string; family: string; expect: Expect }

/** The answer without list markers, bold and boxes. */
function withoutFormat(answer: string): string {
  return answer
    .replace(/^[ \t]*\d+[.)][ \t]+(?=\S)/gm, '')
    .replace(/\\boxed\{([^}]*)\}/g, '$1')
    .replace(/\*\*/g, '')
}

const numbersOf = (text: string): number[] => (text.match(/\d+(?:\.\d+)?/g) ?? []).map(Number)

/** Words of `sort` in the order in which the text names them, whole words, case ignored. */
function named(text: string, sort: readonly string[]): string[] {
  const known = new Map(sort.map((word) => [word.toLowerCase(), word]))
  const found: string[] = []
  for (const word of text.toLowerCase().match(/\p{L}+/gu) ?? []) {
    const hit = known.get(word)
    if (hit !== undefined) found.push(hit)
  }
  return found
}

export function checkProbe(probe: Pick<Probe, 'expect'>, answer: string): boolean {
  const text = withoutFormat(answer)
  const expect = probe.expect
  switch (expect.kind) {
    case 'number': {
      const numbers = numbersOf(text)
      return numbers.at(-1) === expect.value && numbers.every((n) => n === expect.value || expect.given.includes(n))
    }
    case 'sequence': {
      const numbers = numbersOf(text)
      const last = numbers.slice(-expect.value.length)
      return (
        last.length === expect.value.length &&
        last.every((n, i) => n === expect.value[i]) &&
        numbers.every((n) => expect.value.includes(n))
      )
    }
    case 'word': {
      const words = named(text, [expect.value, ...expect.rivals])
      return (
        words.at(-1) === expect.value && words.every((word) => word === expect.value || expect.given.includes(word))
      )
    }
    case 'members': {
      const words = new Set(named(text, expect.members))
      return words.size === expect.count && named(text, expect.rivals).length === 0
    }
  }
}

/** One probe per line, as in `probes.jsonl`. Throws SyntaxError on a line that is no JSON. */
export function parseProbes(jsonl: string): Probe[] {
  return jsonl
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Probe)
}
