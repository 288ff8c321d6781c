/** What `instar import` needs: lines of a file read, and the turns that they become. */
export type { Line } from './exact.ts'
export { holdsIds, readLine } from './line.ts'
export type { Reading, Spoken } from './spoken.ts'
export { newSessionSoFar, turnsOf } from './turns.ts'
