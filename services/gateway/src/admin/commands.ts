/**
 * Runs admin commands, rollback among them: decides each on the current version line, appends its event to `weights`,
 * waits until it counts, then until the pool serves the result (`followHead` in versions/pool.ts).
 */
import { encodeEvent, InstarError, type Asked, type WeightLine } from '@instar/events'
import { versionsOn, type EventLog } from '@instar/log'
import { actorOf, decideAdmin, type Command } from './core/admin.ts'
import { flag, integer, isFields, parseJson, text, wrong, type Fields } from '@instar/dialects'
import { hex } from '../generate/random.ts'
import type { Pool } from '../versions/pool.ts'
import type { Tail } from '../session/tail.ts'

export type CommandPorts = {
  log: EventLog
  tail: Tail
  pool: Pool
  line: () => WeightLine
  policy: string
  now: () => number
  random: (bytes: number) => Uint8Array
  adminWaitMs: number
  promote: ((branch: string, asked: Asked) => Promise<unknown>) | undefined
  /** Yields progress, then the report. Stops when `gone` is aborted. */
  replay: ((options: Fields, gone: AbortSignal) => AsyncIterable<unknown>) | undefined
}

/**
 * `who`: the name that the caller gives, or null. `key`: the id of the API key, or the admin token's. `gone`: aborted
 * when the caller disconnects.
 */
export type AdminCall = { body: Uint8Array; who: string | null; key: string; gone: AbortSignal }
type CommandReply = { head: number; version: number; frozen: boolean }

/** How often a command is decided again after another writer's event came first. */
const TRIES = 16

export const runCommand = async (ports: CommandPorts, name: string, call: AdminCall): Promise<unknown> => {
  const body = call.body.length === 0 ? {} : parseJson(call.body)
  switch (name) {
    case 'rollback': {
      const to = integer(body, 'version', 0, 1e9)
      if (to === null) throw wrong('version', 'the number of a version')
      return order(ports, { do: 'rollback', to, freeze: !flag(body, 'keepLearning') }, body, call)
    }
    case 'thaw':
      return order(ports, { do: 'freeze', on: false }, body, call)
    case 'freeze':
      return order(ports, { do: 'freeze', on: true }, body, call)
    case 'served':
      return served(ports)
    case 'promote': {
      if (!ports.promote) throw new InstarError('not_available', 'No publisher runs in this process.')
      const branch = text(body, 'branch') ?? text(body, 'name')
      if (branch === null) throw wrong('branch', 'the name of a branch')
      const verdict = await ports.promote(branch, { who: whoOf(body, call), why: oneLine(text(body, 'why') ?? '') })
      return { ...(isFields(verdict) ? verdict : {}), ...(await served(ports)) }
    }
    case 'replay':
      if (!ports.replay) throw new InstarError('not_available', 'This process runs no replay.')
      return ports.replay(body, call.gone)
    default:
      throw new InstarError('unknown_route', `There is no command ${JSON.stringify(name.slice(0, 40))}.`)
  }
}

const order = async (
  ports: CommandPorts,
  command: Command,
  body: Fields,
  call: Pick<AdminCall, 'who' | 'key'>,
): Promise<CommandReply> => {
  const request = text(body, 'request')
  const ordered = {
    command,
    policy: ports.policy,
    request: request === null ? hex(ports.random(16)) : oneLine(request),
    who: whoOf(body, call),
    why: oneLine(text(body, 'why') ?? command.do),
  }
  await ports.tail.weightsCaughtUp()
  for (let tries = 0; tries < TRIES; tries += 1) {
    const step = decideAdmin(ports.line(), ordered, ports.now())
    if (step.do === 'done') return served(ports)
    const { id: _, ...record } = encodeEvent(step.event, versionsOn(ports.log))
    await ports.log.append([record])
    await ports.tail.weightsCaughtUp()
  }
  throw new InstarError('lost_race', `${ports.policy} moved ${TRIES} times before the command could count.`)
}

const whoOf = (body: Fields, { who, key }: Pick<AdminCall, 'who' | 'key'>): string =>
  actorOf(oneLine(text(body, 'who') ?? who ?? ''), key)

/** Replaces control characters, so that names and reasons fit in one table row. */
const oneLine = (said: string): string =>
  said
    .replace(/\p{Cc}+/gu, ' ')
    .trim()
    .slice(0, 200)

/** Waits until this gateway serves the head, then returns the head. */
const served = async ({ tail, pool, line, adminWaitMs }: CommandPorts): Promise<CommandReply> => {
  await tail.weightsCaughtUp()
  const { head } = line()
  pool.wake()
  if (!(await pool.serves(head, adminWaitMs)) && line().head === head) {
    throw new InstarError(
      'not_served',
      `Version ${head} is the head, but this gateway still serves ${pool.serving()?.version ?? 'none'}: ${pool.problem()?.message ?? 'it is loading'}.`,
      { head },
    )
  }
  return { head: line().head, version: pool.serving()?.version ?? head, frozen: line().frozen }
}
