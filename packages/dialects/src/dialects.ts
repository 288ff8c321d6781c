/**
 * The dialects by name. Records of a newer build may name a dialect that this build lacks; they are read as Chat
 * Completions.
 */
import { chat } from './chat/index.ts'
import type { Dialect } from './dialect.ts'
import type { DialectName } from '@instar/events/records'
import { messages } from './messages/index.ts'
import { responses } from './responses/index.ts'

export const DIALECTS = { chat, responses, messages } as const satisfies Record<DialectName, Dialect>

export const dialectOf = (name: string): Dialect =>
  Object.hasOwn(DIALECTS, name) ? DIALECTS[name as keyof typeof DIALECTS] : chat
