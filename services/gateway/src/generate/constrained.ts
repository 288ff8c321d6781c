/** Applies a request's constraint, for engines that support constraints. */
import { InstarError } from '@instar/events'
import type { Constraint, ServingEngine } from '@instar/engine/port'
import type { Dialect, Request } from '@instar/dialects'
import type { ConstraintChecks } from './constraint-checks.ts'
import { constraintOf } from './core/constraint.ts'

/**
 * Returns null if there is no constraint or if the engine applies it by itself; the caller then waits for nothing.
 * Throws `bad_request` or rejects with it, and with `overloaded` and `aborted`.
 */
export const constrained = (
  { engine, checks }: { engine: ServingEngine; checks: ConstraintChecks },
  asking: { key: string | null; gone: AbortSignal },
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
  return checks.check(engine, constraint, asking).then(() => constraint)
}
