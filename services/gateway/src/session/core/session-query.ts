/** What a request says of its session. */
import type { Message } from '@instar/dialects'
import type { AnswerKey } from '@instar/events'
import type { Label } from './labels.ts'

export type SessionQuery = {
  key: string | null
  label: Label | null
  messages: readonly Message[]
  /** The answers in the request, in order, with their message index. */
  answers: readonly { at: number; key: AnswerKey; length: number; text: string }[]
  digest: string
  /**
   * Digest of the messages before the last answer, which equals the earlier request's digest if the client repeats it
   * unchanged; null without an answer.
   */
  before: string | null
  /** The subject from the request's `user` field, or null. */
  subject: string | null
}
