/** Finds the session of a request, reading the log where the index does not know enough. */
import { InstarError } from '@instar/events'
import type { TurnReader } from '@instar/log'
import { dialectOf, parseJson } from '@instar/dialects'
import { choose, locate, nameUnknown, settled, type Asked, type Resolved, type Step } from '../core/resolve.ts'
import { touch, type SessionIndex } from '../core/session-index.ts'
import type { Tail } from './tail.ts'

export type SessionPorts = { index: SessionIndex; tail: Tail; reader: TurnReader; tailWaitMs: number }

/** `fresh`: the name of a new session. */
export const resolveSession = async (ports: SessionPorts, asked: Asked, fresh: string): Promise<Resolved> => {
  const { index, tail } = ports
  let step = await located(ports, asked)
  if (!settled(index, asked, step) && (await tail.turnsWithin(ports.tailWaitMs))) step = await located(ports, asked)
  const resolved = await decided(ports, asked, step) ?? nameUnknown(asked, fresh)
  if (index.forgotten.has(resolved.session)) await tail.restore(resolved.session)
  touch(index, resolved.session)
  return resolved
}

const located = async ({ index, tail }: SessionPorts, asked: Asked): Promise<Step> => {
  const step = locate(index, asked)
  if (step.do !== 'restore') return step
  await tail.restore(step.session)
  return locate(index, asked)
}

const decided = async (ports: SessionPorts, asked: Asked, step: Step): Promise<Resolved | null> => {
  if (step.do === 'found') return step.resolved
  if (step.do !== 'compare') return null
  const requests = await Promise.all(step.candidates.map(({ turn }) => messagesOf(ports.reader, turn)))
  return choose(ports.index, asked, step.candidates, requests)
}

/** The messages of an earlier request; none where its body cannot be read any more. */
const messagesOf = async (reader: TurnReader, turn: string): Promise<readonly unknown[]> => {
  try {
    return dialectOf((await reader.record(turn)).dialect).messages(parseJson(await reader.body(turn)))
  } catch (error) {
    if (error instanceof InstarError) return []
    throw error
  }
}
