/**
 * The dialects by name. Records of a newer build may name a dialect that this build lacks; they are read as Chat
 * Completions.
 *
 * A new dialect: a folder with its `Dialect` (as messages/), an entry here, its name in `DIALECT_NAMES`
 * (packages/events/ src/records.ts) and in the enum `dialect` of new versions of the records of turns (schemas/turns,
 * `NEWEST_VERSION` in flow.ts), its operation in services/gateway/src/receive/openapi/operations.ts. Routes and metrics
 * follow from here.
 */
import { chat } from './chat/index.ts'
import type { Dialect } from './dialect.ts'
import type { DialectName } from '@instar/events/records'
import { messages } from './messages/index.ts'
import { responses } from './responses/index.ts'

export const DIALECTS = { chat, responses, messages } as const satisfies Record<DialectName, Dialect>

export const dialectOf = (name: string): Dialect =>
  Object.hasOwn(DIALECTS, name) ? DIALECTS[name as keyof typeof DIALECTS] : chat
