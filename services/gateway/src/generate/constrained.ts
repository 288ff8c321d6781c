/** What the answer to a request must be, where the engine is one that can be told. */
import { InstarError } from '@instar/events'
import type { Constraint, ServingEngine } from '@instar/engine/port'
import type { Dialect, Request } from '@instar/dialects'
import { constraintOf } from './core/constraint.ts'

/** Null: whatever the model says, or the engine takes the request as it is and sees for itself; then nothing is waited for. Throws `bad_request`, and rejects with it. */
export const constrained = (
  engine: ServingEngine,
  dialect: Dialect,
  request: Request,
  insideReasoning: boolean,
): Promise<Constraint> | null => {
  const { chat, engine: name } = engine.capabilities()
  const constraint = chat ? null : constraintOf(dialect, request, insideReasoning)
  if (!constraint) return null
  if (!engine.check)
    throw new InstarError('bad_request', `The engine ${name} cannot be told what an answer must be.`, {
      field: constraint.json?.field ?? 'tool_choice',
    })
  return engine.check(constraint).then(() => constraint)
}
