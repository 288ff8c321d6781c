/**
 * The simulation on a product with one change. Each mutant has its own modules in this process: what is imported under
 * `?mutant=NAME` imports under the same name, and changed files are patched as they are read. No file is changed. A
 * patch whose text is not in its file exactly once (line breaks aside) is an error.
 */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import { join } from 'node:path'
import { ROOT } from '../../../tools/tree.ts'
import type { simulate } from '../world.ts'
import type { Mutant } from './table.ts'

const QUERY = /\?mutant=(\w+)$/
/** Name → URL of a file → its patches. */
const patched = new Map<string, Map<string, Mutant['patch']>>()

const urlOf = (file: string): string => pathToFileURL(join(ROOT, file)).href

/** Finds `from` with any line breaks of the formatter: white space and trailing commas are ignored. */
const pattern = (from: string): RegExp => {
  const characters = [...from.replace(/\s+/g, '')].map((one) => {
    const exactly = one.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&')
    return /[)\]}]/.test(one) ? `,?\\s*${exactly}` : exactly
  })
  return new RegExp(characters.join('\\s*'), 'g')
}

const apply = (source: string, file: string, patch: Mutant['patch']): string =>
  patch.reduce((text, [from, to]) => {
    const found = text.match(pattern(from))?.length ?? 0
    if (found !== 1) throw new Error(`${file} holds ${found} times, not once: ${from}`)
    return text.replace(pattern(from), () => to)
  }, source)

/** Throws if a patch does not fit its file. */
export const checkPatch = ({ file, patch }: Mutant): void => {
  apply(readFileSync(join(ROOT, file), 'utf8'), file, patch)
}

registerHooks({
  resolve(specifier, context, next) {
    const found = next(specifier, context)
    const mutant = QUERY.exec(context.parentURL ?? '')
    const isOurs =
      found.url.startsWith(pathToFileURL(ROOT).href) &&
      found.url.endsWith('.ts') &&
      !found.url.includes('/node_modules/')
    return mutant && isOurs ? { ...found, url: found.url + mutant[0] } : found
  },
  load(url, context, next) {
    const loaded = next(url, context)
    const name = QUERY.exec(url)?.[1]
    const file = url.replace(QUERY, '')
    const patch = name === undefined ? undefined : patched.get(name)?.get(file)
    return patch
      ? { ...loaded, source: apply(Buffer.from(loaded.source as Uint8Array).toString(), file, patch) }
      : loaded
  },
})

/** The simulation on this mutant. */
export const load = async ({ name, file, patch }: Mutant): Promise<typeof simulate> => {
  patched.set(name, new Map([[urlOf(file), patch]]))
  const world = (await import(`${urlOf('test/simulation/world.ts')}?mutant=${name}`)) as { simulate: typeof simulate }
  return world.simulate
}
