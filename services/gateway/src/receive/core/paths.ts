/** Normalizes paths: clients append to a base URL with or without `/v1` and with or without a final slash. */

const SURFACE = String.raw`(?:chat/completions|completions|embeddings|responses|messages|models)(?=/|$)`
const SESSION = '^(/s/[^/]+)?'
const WITHOUT = new RegExp(`${SESSION}/(${SURFACE})`)
const TWICE = new RegExp(`${SESSION}/v1/v1/(${SURFACE})`)

/** Takes path and query. */
export const usualPath = (url: string): string => {
  const query = url.indexOf('?')
  const path = query < 0 ? url : url.slice(0, query)
  const single = path.replace(/\/{2,}/g, '/').replace(/(?<=.)\/$/, '')
  return single.replace(TWICE, '$1/v1/$2').replace(WITHOUT, '$1/v1/$2') + url.slice(path.length)
}
