/**
 * The dialects by name. A name that this build does not know reads as Chat Completions, whose fields are the most
 * common.
 */
import { chat } from './chat/index.ts'
import type { Dialect } from './dialect.ts'
import type { DialectName } from '@instar/events/records'
import { messages } from './messages/index.ts'
import { responses } from './responses/index.ts'

export const DIALECTS = { chat, responses, messages } as const satisfies Record<DialectName, Dialect>

export const dialectOf = (name: string): Dialect =>
  Object.hasOwn(DIALECTS, name) ? DIALECTS[name as keyof typeof DIALECTS] : chat
