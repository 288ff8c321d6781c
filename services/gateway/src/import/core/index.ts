/** The exports for `instar import`: parsing lines and building turns from them. */
export type { Line } from './exact.ts'
export { holdsIds, readLine } from './line.ts'
export type { Reading, ImportedRequest } from './imported-request.ts'
export { newSessionSoFar, turnsOf } from './turns.ts'
