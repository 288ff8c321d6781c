/**
 * The dialects by name. Records of a newer build may name a dialect that this build lacks; they are read as Chat
 * Completions.
 *
 * A new dialect touches:
 * - packages/dialects/src/<name>/: its `Dialect`, like messages/
 * - packages/dialects/src/dialects.ts, `DIALECTS`: its entry; routes and metrics follow from it
 * - packages/dialects/src/schemas/<name>.ts, exported in schemas/index.ts: the zod schema of its request body
 * - services/gateway/src/receive/openapi/operations.ts: its operation, with that schema
 * - packages/events/src/records.ts, `DIALECT_NAMES`: its name
 * - schemas/turns: the name in the enum `dialect` of new versions of the records of turns, since published schemas do not
 *   change; packages/events/src/flow.ts, `NEWEST_VERSION`: those versions
 */
import { chat } from './chat/index.ts'
import type { Dialect } from './dialect.ts'
import type { DialectName } from '@instar/events/records'
import { messages } from './messages/index.ts'
import { responses } from './responses/index.ts'

export const DIALECTS = { chat, responses, messages } as const satisfies Record<DialectName, Dialect>

export const dialectOf = (name: string): Dialect =>
  Object.hasOwn(DIALECTS, name) ? DIALECTS[name as keyof typeof DIALECTS] : chat
