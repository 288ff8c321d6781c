/**
 * Wordings by composition: a frame (how one asks) takes a part (what is asked for), and both hold alternatives. An
 * eighth of the frames and of the parts is never in the corpus, so that obedience to wordings never read can be measured.
 */
import { crc32 } from 'node:zlib'
import { pick } from './random.ts'
import type { Random } from './random.ts'

/** `train`: what the corpus says. `held-out`: for measuring; its frames and parts are in no conversation. */
export type Source = 'train' | 'held-out'

export const sourceOf = (template: string): Source => (crc32(template) % 8 === 0 ? 'held-out' : 'train')

export const from = (source: Source, templates: readonly string[]): string[] =>
  templates.filter((template) => sourceOf(template) === source)

/** `<name>` is one of the list of that name, `[a|b|]` one of the alternatives; lists may hold alternatives. */
export function expand(random: Random, template: string, lists: Readonly<Record<string, readonly string[]>>): string {
  const named = template.replace(/<([a-z_]+)>/g, (_, name: string) => {
    const list = lists[name]
    if (list === undefined) throw new RangeError(`no list ${name} for ${template}`)
    return expand(random, pick(random, list), lists)
  })
  return named.replace(/\[([^\]]*)\]/g, (_, inside: string) => pick(random, inside.split('|')))
}

/** Every text of a template. */
export function* expansions(template: string, lists: Readonly<Record<string, readonly string[]>>): Generator<string> {
  const slot = /<([a-z_]+)>|\[([^\]]*)\]/.exec(template)
  if (slot === null) {
    yield template
    return
  }
  const [all, name, inside] = slot
  const fillings =
    name === undefined ? inside!.split('|') : lists[name]!.flatMap((item) => [...expansions(item, lists)])
  const before = template.slice(0, slot.index)
  for (const rest of expansions(template.slice(slot.index + all.length), lists))
    for (const filling of fillings) yield before + filling + rest
}

/** How many different texts a template has. */
export function variants(template: string, lists: Readonly<Record<string, readonly string[]>>): number {
  let count = 1
  for (const [, name] of template.matchAll(/<([a-z_]+)>/g))
    count *= lists[name!]!.reduce((sum, item) => sum + variants(item, lists), 0)
  for (const [, inside] of template.matchAll(/\[([^\]]*)\]/g)) count *= inside!.split('|').length
  return count
}

/** Words in lower case, without punctuation. */
export const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .replace(/’/g, "'")
    .match(/[\p{L}\p{N}][\p{L}\p{N}']*/gu) ?? []

/** A capital at the beginning, single spaces, `an` before a vowel. */
export const sentence = (text: string): string => {
  const single = text
    .replace(/ +/g, ' ')
    .replace(/ ([.,?!])/g, '$1')
    .replace(/\b([Aa]) (?=[aei]|o(?!ne)|un)/g, '$1n ')
    .trim()
  return single.charAt(0).toUpperCase() + single.slice(1)
}
