/**
 * Rows derived from others: typing errors, two reactions one after the other, the request again, a request of another.
 */
import { seeded } from './learn.ts'
import type { Row } from './data.ts'

const WEIGHT = 0.3
/** Characters of a reaction that is put together with another. */
const SHORT = 80

const said = (row: Row, user: string, rest: Partial<Row> = {}): Row => ({
  ...row,
  weight: WEIGHT,
  ...rest,
  next: { user, tools: [] },
})

/** `rows` and what was derived from them. The same seed gives the same rows. */
export const augmented = (rows: readonly Row[], seed: number): Row[] => {
  const random = seeded(seed)
  const one = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!
  const contexts = Map.groupBy(rows, ({ ctx }) => ctx)
  const requests = Map.groupBy(
    [...contexts.values()].map((of) => of[0]!).filter(({ request }) => request.length < 120),
    ({ lang }) => lang,
  )
  const derived: Row[] = []
  for (const row of rows) {
    const { user } = row.next
    if (user === '') continue
    derived.push(said(row, mistyped(user, random)))
    const other = one(contexts.get(row.ctx)!)
    if (random() < 0.4) {
      const both = inARow(row, other, random)
      if (both) derived.push(both)
    }
  }
  for (const of of contexts.values()) {
    const row = of[0]!
    if (row.request.length < 120) derived.push(said(row, retold(row.request, random), { label: -1, wish: 'other' }))
    const elsewhere = (requests.get(row.lang) ?? []).filter(({ ctx }) => ctx !== row.ctx)
    if (elsewhere.length === 0) continue
    for (let i = 0; i < 2; i += 1)
      derived.push(said(row, retold(one(elsewhere).request, random), { label: 0, wish: null }))
    const praise = of.filter(({ label, next }) => label === 1 && next.user !== '' && next.user.length < 40)
    if (praise.length > 0)
      derived.push(said(row, `${sentence(one(praise).next.user)} ${one(elsewhere).request}`, { label: 1, wish: null }))
  }
  return [...rows, ...derived]
}

const sentence = (text: string): string => (/[.!?。！？]$/u.test(text) ? text : `${text}.`)

const retold = (request: string, random: () => number): string => {
  const way = random()
  return way < 0.5
    ? request
    : way < 0.75
      ? request.toLowerCase().replace(/[.!?]+$/u, '')
      : request.replace(/[.,!?]/gu, '')
}

const mistyped = (text: string, random: () => number): string => {
  const way = random()
  if (way < 0.25) return text.replace(/[.!?,]/gu, '')
  if (way < 0.5) return text.toLowerCase().replace(/'/gu, '')
  if (way >= 0.75 || text.length <= 4)
    return /[.!?]$/u.test(text) ? text.slice(0, -1) : `${text}${random() < 0.5 ? '.' : '!'}`
  const at = 1 + Math.floor(random() * (text.length - 3))
  return random() < 0.5
    ? text.slice(0, at) + text.slice(at + 1)
    : text.slice(0, at) + text[at + 1]! + text[at]! + text.slice(at + 2)
}

/** The later part prevails unless it says nothing; null where what prevails is not clear. */
const inARow = (first: Row, then: Row, random: () => number): Row | null => {
  const [a, b] = [first.next.user, then.next.user]
  if (first === then || b === '' || a.length > SHORT || b.length > SHORT || first.lang !== then.lang) return null
  const decisive = then.label === -1 ? then : first.label === 1 ? first : null
  if (!decisive) return null
  const but = then.label === -1 && first.label === 1 && first.lang === 'en' && random() < 0.5
  const between = but ? ', but ' : /[.!?]$/u.test(a) ? ' ' : random() < 0.5 ? '. ' : ', '
  return said(first, a + between + b, { label: decisive.label, wish: decisive.wish })
}
