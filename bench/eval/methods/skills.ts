import { hintKind } from '@instar/scorer'
import type { Method, Told } from './method.ts'

/** Complaints that the list is distilled from, and rules that it holds. */
const LAST = 48
const RULES = 4

/** Of two opposites only the one with more complaints is a rule. */
const OPPOSITES: Readonly<Record<string, string>> = {
  shorter: 'longer',
  longer: 'shorter',
  unformatted: 'structured',
  structured: 'unformatted',
  warmer: 'drier',
  drier: 'warmer',
}

/** One rule for each wish of the last complaints, the most frequent first, in the last wording of the scorer. */
export const rulesOf = (told: readonly Told[]): string[] => {
  const byKind = Map.groupBy(told.slice(-LAST), ({ hint }) => hintKind(hint) ?? hint)
  const count = (kind: string): number => byKind.get(kind)?.length ?? 0
  return [...byKind]
    .filter(([kind]) => OPPOSITES[kind] === undefined || count(kind) > count(OPPOSITES[kind]))
    .toSorted(([, a], [, b]) => b.length - a.length)
    .slice(0, RULES)
    .map(([, complaints]) => complaints.at(-1)!.hint)
}

export const skills: Method = {
  name: 'skills',
  summary: `at most ${RULES} rules, distilled from everybody's last ${LAST} complaints, in everybody's system message`,
  loss: null,
  byDefault: true,
  separate: false,
  note(told) {
    const rules = rulesOf(told)
    return rules.length === 0 ? null : rules.join(' ')
  },
}
