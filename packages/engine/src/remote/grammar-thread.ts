/** Worker thread that writes grammars: a schema may take a quarter of a second, which would block the event loop. */
import { InstarError, type ErrorCode } from '@instar/events/errors'
import type { Constraint } from '../port.ts'
import { ebnfOf } from '@instar/grammar'
import { parentPort } from 'node:worker_threads'

export type GrammarRequest = { id: number; constraint: Constraint; thinks: boolean }
export type GrammarReply = { id: number } & (
  | { grammar: string }
  | { refused: { code: ErrorCode; message: string; details: Record<string, unknown> } }
)

const port = parentPort!

const written = ({ id, constraint, thinks }: GrammarRequest): GrammarReply => {
  try {
    return { id, grammar: ebnfOf(constraint, thinks) }
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    const { code, message, details } = error
    return { id, refused: { code, message, details: { ...details } } }
  }
}

port.on('message', (one: GrammarRequest) => port.postMessage(written(one)))
