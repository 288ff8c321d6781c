/** Moves readers past a record that they cannot decode, on the decision of an operator. */
import { TOPICS, type Topic } from '@instar/events/flow'
import { openKafka } from '@instar/process'
import { UsageError } from './command.ts'
import type { Config } from './config.ts'

type SetAsideRecord = { topic: Topic; partition: number; offset: number; why: string }

/**
 * Copies the record at `at` (`turns 3@17`: topic, partition, offset) to the dead letters of its topic. Throws
 * `UsageError`, `position_unknown` if there is no record at the position, `bad_request` on an embedded log, which has
 * no dead letters.
 */
export const setAside = async (
  config: Config,
  { at, why }: { at?: string; why?: string },
  logLine: (line: string) => void,
): Promise<SetAsideRecord> => {
  const [, name, partition, offset] = /^([a-z]+) (\d+)@(\d+)$/.exec(at ?? '') ?? []
  const topic = TOPICS.find((one) => one === name)
  if (topic === undefined) throw new UsageError(`--at ${at ?? ''} is not of the form "TOPIC PARTITION@OFFSET"`)
  if (why === undefined) throw new UsageError('--why TEXT is missing; the dead letter stores it')
  const position = { topic, partition: Number(partition), offset: Number(offset) }
  const log = await openKafka(config, { name: 'instar log set-aside', logLine })
  try {
    await log.deadLetter(position, why)
  } finally {
    await log.close()
  }
  return { ...position, why }
}
