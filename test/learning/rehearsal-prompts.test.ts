/** The prompts that updates rehearse are apart from all that measures: the gate's battery, the demo, the hints. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { FACTS } from '../../cli/src/demo/wishes/facts.ts'
import { THANKS, WISHES } from '../../cli/src/demo/wishes/people.ts'
import { questionAt } from '../../cli/src/demo/wishes/topics.ts'
import { GENERAL_WORDINGS, WORDINGS } from '../../services/scorer/src/core/hints.ts'
import { rehearsalPrompts } from '../../services/trainer/src/shell/rehearsal.ts'
import { ROOT } from '../../tools/tree.ts'

const words = (text: string): string[] => text.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? []
/** Its sequences of four words, and the whole of a shorter text. */
const sequences = (text: string): string[] => {
  const all = words(text)
  return all.length < 4
    ? [all.join(' ')]
    : Array.from({ length: all.length - 3 }, (_, at) => all.slice(at, at + 4).join(' '))
}

type Line = { messages: readonly { role: string; content: string }[] }
const linesOf = (file: string): Line[] =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)

describe('the prompts that ship', () => {
  const { prompts } = rehearsalPrompts()
  const texts = prompts.flatMap((messages) => messages.map(({ content }) => String(content)))

  test('are at least 200 different ones of twelve kinds or more', () => {
    ok(prompts.length >= 200, `${prompts.length}`)
    equal(new Set(prompts.map((messages) => JSON.stringify(messages))).size, prompts.length)
    const kinds = Map.groupBy(
      linesOf(join(ROOT, 'models/rehearsal/prompts.jsonl')) as unknown as { kind: string }[],
      ({ kind }) => kind,
    )
    ok(kinds.size >= 12, [...kinds.keys()].join(' '))
  })

  const battery = join(ROOT, 'models/probes')
  const others: Record<string, string[]> = {
    'the gate’s battery and fixed prompts': readdirSync(battery)
      .filter((name) => name.endsWith('.jsonl'))
      .flatMap((name) => linesOf(join(battery, name)))
      .flatMap(({ messages }) => messages.map(({ content }) => content)),
    'the demo’s facts': FACTS.map(({ question }) => question),
    'what the demo’s people say and ask': WISHES.flatMap(({ system, forms, complaints }) => [
      system,
      ...complaints,
      ...(['talked', 'measured'] as const).flatMap((list) =>
        Array.from({ length: 240 }, (_, at) => questionAt(list, at, forms)),
      ),
    ]),
    'thanks of the demo': [...THANKS],
    'the hints': [WORDINGS, GENERAL_WORDINGS].flatMap((set) => Object.values(set).flat()),
  }
  for (const [what, said] of Object.entries(others))
    test(`share no four words in a row, and no whole sentence, with ${what}`, () => {
      ok(said.length > 5, `${said.length}`)
      const known = new Set(said.flatMap(sequences))
      deepEqual(
        texts.filter((text) => sequences(text).some((one) => known.has(one))),
        [],
      )
    })
})
