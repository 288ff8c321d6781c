/** Decides admin commands on the version line. The caller appends the event and reads it back. */
import { InstarError, type HeadMoved, type LearningFrozen, type WeightLine } from '@instar/events'

export type Command = { do: 'rollback'; to: number; freeze: boolean } | { do: 'freeze'; on: boolean }

export type Ordered = { command: Command; policy: string; request: string; who: string; why: string }

/** The actor in the record: the caller's name, followed by the key that the gateway authenticated. */
export const actorOf = (said: string, key: string): string => (said === '' ? key : `${said} (${key})`)

/** `done`: the command has already taken effect, or it changes nothing. */
type AdminStep = { do: 'append'; event: HeadMoved | LearningFrozen } | { do: 'done' }

export const decideAdmin = (line: WeightLine, ordered: Ordered, at: number): AdminStep => {
  const { command, policy, request, who, why } = ordered
  if (line.requests.has(request)) return { do: 'done' }
  if (!line.started) throw new InstarError('no_line', `${policy} has no versions yet.`, { policy })
  const common = { prev: line.chain.tip, policy, who, why, request, at }
  if (command.do === 'freeze')
    return line.frozen === command.on
      ? { do: 'done' }
      : { do: 'append', event: { type: 'LearningFrozen', on: command.on, ...common } }
  if (!line.versions.has(command.to))
    throw new InstarError('unknown_version', `${policy} has no version ${command.to}.`, { version: command.to })
  if (line.head === command.to && (line.frozen || !command.freeze)) return { do: 'done' }
  return {
    do: 'append',
    event: { type: 'HeadMoved', from: line.head, to: command.to, freeze: command.freeze, ...common },
  }
}
