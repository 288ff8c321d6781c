/**
 * Worker thread that compiles constraints to EBNF: a large schema takes up to 250 ms, which would block the event loop.
 */
import { InstarError, type ErrorCode } from '@instar/events/errors'
import type { Constraint } from '../port.ts'
import { ebnfOf } from '@instar/grammar'
import { parentPort } from 'node:worker_threads'

export type GrammarRequest = { id: number; constraint: Constraint; mayReason: boolean }
export type GrammarReply = { id: number } & (
  | { grammar: string }
  | { error: { code: ErrorCode; message: string; details: Record<string, unknown> } }
)

const port = parentPort!

const compile = ({ id, constraint, mayReason }: GrammarRequest): GrammarReply => {
  try {
    return { id, grammar: ebnfOf(constraint, mayReason) }
  } catch (thrown) {
    if (!(thrown instanceof InstarError)) throw thrown
    const { code, message, details } = thrown
    return { id, error: { code, message, details: { ...details } } }
  }
}

port.on('message', (request: GrammarRequest) => port.postMessage(compile(request)))
