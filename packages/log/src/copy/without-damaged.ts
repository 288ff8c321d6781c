/** A log as the source of a copy, without the records that do not match their checksums. */
import type { Topic } from '@instar/events/flow'
import { MAX_DAMAGED_OFFSETS } from '../archive/manifest.ts'
import type { DamagedReport } from '../archive/report.ts'
import type { CopySource, LogRecord, ReadOptions } from '../port.ts'

/** `damaged`: the records that were passed over so far, each once, however often it was read. */
export const withoutDamaged = (log: CopySource): { source: CopySource; damaged: () => DamagedReport } => {
  const passed = new Map<string, { topic: Topic; partition: number; offsets: Set<number> }>()
  const isWhole = ({ topic, partition, offset, damaged }: LogRecord): boolean => {
    if (!damaged) return true
    const name = `${topic} ${partition}`
    const known = passed.get(name) ?? { topic, partition, offsets: new Set() }
    passed.set(name, known)
    known.offsets.add(offset)
    return false
  }
  async function* read(topic: Topic, options?: ReadOptions): AsyncGenerator<LogRecord[]> {
    for await (const page of log.read(topic, options)) {
      const whole = page.filter(isWhole)
      if (whole.length > 0) yield whole
    }
  }
  return {
    source: {
      ...(log.sequential === undefined ? {} : { sequential: log.sequential }),
      partitions: (topic) => log.partitions(topic),
      ends: (topics) => log.ends(topics),
      read,
    },
    damaged: () => {
      const all = [...passed.values()]
      return {
        records: all.reduce((sum, { offsets }) => sum + offsets.size, 0),
        first: all.flatMap(({ topic, partition, offsets }) =>
          [...offsets]
            .sort((a, b) => a - b)
            .slice(0, MAX_DAMAGED_OFFSETS)
            .map((offset) => ({ topic, partition, offset })),
        ),
      }
    },
  }
}
