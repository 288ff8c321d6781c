/** Normalizes paths: clients append to a base URL with or without `/v1` and with or without a final slash. */
import { DIALECTS } from '@instar/dialects'

const ROUTES = [...Object.values(DIALECTS).map(({ path }) => path.slice(1)), 'completions', 'embeddings', 'models']
const SURFACE = `(?:${ROUTES.join('|')})(?=/|$)`
const SESSION = '^(/s/[^/]+)?'
const WITHOUT = new RegExp(`${SESSION}/(${SURFACE})`)
const TWICE = new RegExp(`${SESSION}/v1/v1/(${SURFACE})`)

/** Most clients send one of these. */
const USUAL: ReadonlySet<string> = new Set(Object.values(DIALECTS).map(({ path }) => `/v1${path}`))

/** Takes path and query. */
export const usualPath = (url: string): string => {
  if (USUAL.has(url)) return url
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  const single = path.replace(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '')
  return single.replace(TWICE, '$1/v1/$2').replace(WITHOUT, '$1/v1/$2') + url.slice(path.length)
}
