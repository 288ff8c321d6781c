/** Numbers and times as text: one way for each unit. */

const MISSING = '–'

export const count = (value: number | null | undefined): string =>
  value === null || value === undefined ? MISSING : value.toLocaleString('en', { maximumFractionDigits: 0 })

/** With `digits` after the point, and a sign if `signed`. */
export const number = (value: number | null | undefined, digits = 2, signed = false): string => {
  if (value === null || value === undefined || !Number.isFinite(value)) return MISSING
  const text = Math.abs(value).toFixed(digits)
  const negative = value < 0 && Number(text) !== 0
  return `${negative ? '−' : signed && Number(text) !== 0 ? '+' : ''}${text}`
}

export const reward = (value: number | null | undefined): string => number(value, 2, true)

export const percent = (value: number | null | undefined): string =>
  value === null || value === undefined ? MISSING : `${(100 * value).toFixed(0)} %`

/** Rounded before its unit is chosen, so that no part has 60 of the smaller one. */
export const duration = (ms: number | null | undefined): string => {
  if (ms === null || ms === undefined) return MISSING
  if (Math.round(ms) < 1_000) return `${Math.round(ms)} ms`
  if (Math.round(ms / 100) < 600) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  const minutes = Math.round(ms / 60_000)
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Local date and time to the second; `title` attributes have the exact time in UTC. */
export const time = (iso: string | null | undefined): string =>
  iso ? new Date(iso).toLocaleString('sv-SE', { dateStyle: 'short', timeStyle: 'medium' }) : MISSING

export const ago = (iso: string | null | undefined, now: number): string => {
  if (!iso) return MISSING
  const seconds = Math.max(0, (now - Date.parse(iso)) / 1_000)
  if (seconds < 60) return `${Math.floor(seconds)} s ago`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`
  return `${Math.floor(seconds / 86_400)} d ago`
}

const LONGEST_NAME = 120

/**
 * A name that somebody gave, as one line: characters without a shape of their own, such as those that turn the
 * direction of writing, as their code points; a long one is cut.
 */
export const plainName = (name: string): string => {
  const plain = name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0)!.toString(16)}}`)
  const letters = [...plain]
  return letters.length > LONGEST_NAME ? `${letters.slice(0, LONGEST_NAME - 1).join('')}…` : plain
}

/** The end of an id, which is its random part. */
export const shortId = (id: string | null | undefined): string => (id ? id.slice(-8) : MISSING)
