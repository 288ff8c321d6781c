/** Writes grammars beside the event loop of the gateway: a schema may take a quarter of a second. */
import { InstarError, type ErrorCode } from '@instar/events/errors'
import type { Constraint } from '../port.ts'
import { ebnfOf } from '@instar/grammar'
import { parentPort } from 'node:worker_threads'

export type ToWrite = { id: number; constraint: Constraint; thinks: boolean }
export type Written = { id: number } & (
  | { grammar: string }
  | { refused: { code: ErrorCode; message: string; details: Record<string, unknown> } }
)

const port = parentPort!

const written = ({ id, constraint, thinks }: ToWrite): Written => {
  try {
    return { id, grammar: ebnfOf(constraint, thinks) }
  } catch (error) {
    if (!(error instanceof InstarError)) throw error
    const { code, message, details } = error
    return { id, refused: { code, message, details: { ...details } } }
  }
}

port.on('message', (one: ToWrite) => port.postMessage(written(one)))
