import type { Method } from './method.ts'

/** Wishes that a note holds. */
const LAST = 3

export const memory: Method = {
  name: 'memory',
  summary: `the person's last ${LAST} wishes, as they said them, in the system message`,
  loss: null,
  byDefault: true,
  separate: false,
  note(told, person) {
    const own = told.filter((one) => one.person === person).slice(-LAST)
    if (own.length === 0) return null
    return `What this person has asked for before: ${own.map(({ words }) => `"${words}"`).join(' ')}`
  },
}
