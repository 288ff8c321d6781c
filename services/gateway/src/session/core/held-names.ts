/**
 * Which names of answers and prompts are held on the disk, so that a conversation without a label is found longer than memory
 * remembers it. Names are held in generations: whole ones expire, by the time of the log and by bytes, so that what is held
 * follows from the log alone. The time of the log is the least of its last WINDOW turns' times: clocks that are ahead do not
 * move it unless they wrote all of those, and one that is behind only keeps names longer, within the bytes.
 */
/** `ms`: how long a name is found, by the clock of the gateway that asks; `bytes`: of rows, as `sizeOfRow` counts. 0: none is held. */
export type NameLimits = { ms: number; bytes: number }

/** `from`: time of the log when it began; `to`: latest time of its turns, ms. */
export type Generation = { number: number; from: number; to: number; names: number; bytes: number }

/** `log`: id of the record of the first name, '' before it; `added`: names so far, expired ones too; `times`: of the last turns, ms. */
export type HeldNames = {
  log: string
  added: number
  times: number[]
  generations: Generation[]
  /** Turns were folded without the table. */
  isIncomplete?: true
  /** As a checkpoint has it: the names of all turns of the state are to be added. */
  isUnfilled?: true
}

/** `reads`: of requests, by what came of them. `expired`: names of this process's life. */
export type NameFigures = { held: number; bytes: number; expired: number; reads: Record<ReadResult, number> }
export type ReadResult = 'found' | 'none' | 'failed'

/** Where names of folded turns are held. `at`: ms; `record`: id of the turn's. `find`: the sessions with any of these names, the likeliest last. */
export type NameHolder = {
  add(names: readonly string[], at: number, session: string, record: string): void
  find(names: readonly string[]): Promise<string[]>
  figures(): NameFigures
}

/** A generation is at most this part of the limits, so that at most this part too much expires. */
const PARTS = 8
export const WINDOW = 256

/** Where the snapshot has the state of the names. */
export const HELD = { table: 'held names', key: 'held' } as const

/** Earlier builds read `isIncomplete` and fold the log from its start. */
export const UNFILLED: HeldNames = {
  log: '',
  added: 0,
  times: [],
  generations: [],
  isIncomplete: true,
  isUnfilled: true,
}

export const noNames = (): HeldNames => ({ log: '', added: 0, times: [], generations: [] })

/** The names of a turn among which rows are found: of its answer, and of its prompt. `name`: as `nameFor`. */
export const answerName = (name: string): string => `answer ${name}`
export const promptName = (name: string): string => `prompt ${name}`

/**
 * The generation of the names of a turn of the time `at`, and those that expire by it. `bytes`: of the rows that are added.
 * A clock that is set back adds to the newest generation. Others expire before one with a time ahead, of which there is an
 * eighth of the bytes at most.
 */
export const addToGeneration = (
  held: HeldNames,
  limits: NameLimits,
  at: number,
  names: number,
  bytes: number,
): { generation: number; expired: Generation[] } => {
  const now = leastWith(held.times, at)
  held.added += names
  const { generations } = held
  let last = generations.at(-1)
  if (!last || last.bytes + bytes > limits.bytes / PARTS || now - last.from > limits.ms / PARTS) {
    last = { number: (last?.number ?? 0) + 1, from: now, to: at, names: 0, bytes: 0 }
    generations.push(last)
  }
  last.to = Math.max(last.to, at)
  last.names += names
  last.bytes += bytes
  const expired: Generation[] = []
  const hasExpired = (one: Generation): boolean => one !== last && one.to < now - limits.ms
  if (generations.some(hasExpired))
    held.generations = generations.filter((one) => !hasExpired(one) || !expired.push(one))
  while (held.generations.length > 1 && bytesOf(held) > limits.bytes) expired.push(held.generations.shift()!)
  return { generation: last.number, expired }
}

/**
 * Adds a time to the last WINDOW, and returns the least of them. Called for each turn: in one pass, without a copy of the list as
 * by `push` after `shift`.
 */
const leastWith = (times: number[], at: number): number => {
  const moves = times.length >= WINDOW
  if (!moves) times.push(at)
  let least = at
  for (let i = moves ? 1 : 0; i < times.length; i += 1) {
    const time = times[i]!
    if (moves) times[i - 1] = time
    if (time < least) least = time
  }
  if (moves) times[times.length - 1] = at
  return least
}

export const bytesOf = ({ generations }: HeldNames): number => generations.reduce((sum, { bytes }) => sum + bytes, 0)

export const namesIn = ({ generations }: HeldNames): number => generations.reduce((sum, { names }) => sum + names, 0)
