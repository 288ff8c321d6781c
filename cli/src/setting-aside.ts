/** A record that a person has decided about: what no reader may decide by itself. */
import { TOPICS, type Topic } from '@instar/events/flow'
import { openKafka } from '@instar/process'
import { UsageError } from './command.ts'
import type { Config } from './config.ts'

type SetAside = { topic: Topic; partition: number; offset: number; why: string }

/**
 * `at`: `turns 3@17`. Throws `position_unknown` where no record stands, and `bad_request` on an embedded log, which
 * has no dead letters.
 */
export const setAside = async (
  config: Config,
  { at, why }: { at?: string; why?: string },
  say: (line: string) => void,
): Promise<SetAside> => {
  const [, name, partition, offset] = /^([a-z]+) (\d+)@(\d+)$/.exec(at ?? '') ?? []
  const topic = TOPICS.find((one) => one === name)
  if (topic === undefined) throw new UsageError(`--at ${at ?? ''} is not of the form "turns 3@17"`)
  if (why === undefined) throw new UsageError('--why is needed: it is kept with the dead letter')
  const position = { topic, partition: Number(partition), offset: Number(offset) }
  const log = await openKafka(config, { name: 'instar log set-aside', say })
  try {
    await log.deadLetter(position, why)
  } finally {
    await log.close()
  }
  return { ...position, why }
}
