/** Applies a request's constraint, for engines that support constraints. */
import { InstarError } from '@instar/events'
import type { Constraint, ServingEngine } from '@instar/engine/port'
import type { Dialect, Request } from '@instar/dialects'
import { constraintOf } from './core/constraint.ts'

/**
 * Returns null if there is no constraint or if the engine applies it by itself; the caller then waits for nothing.
 * Throws `bad_request` or rejects with it.
 */
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
