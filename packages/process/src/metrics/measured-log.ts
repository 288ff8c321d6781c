/** A log that records the duration, the number and the failures of its appends as metrics. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import { logWith, type EventLog } from '@instar/log'
import type { Metrics } from './metrics.ts'

/**
 * All methods except `append` are those of `log`. A batch of several topics counts for the topic of its first record.
 */
export const measuredLog = <L extends EventLog>(log: L, metrics: Metrics): L => {
  const pending = new Map<Topic, number>(TOPICS.map((topic) => [topic, 0]))
  metrics.read('instar_log_append_waiting', () => [...pending].map(([topic, count]) => [{ topic }, count]))
  metrics.read('instar_log_dead_letters', () =>
    [...(log.deadLettersKnown?.() ?? [])].map(([topic, count]) => [{ topic }, count]),
  )
  metrics.read('instar_archive_objects_total', () => {
    const use = log.archiveUse?.()
    return use ? (['read', 'failed'] as const).map((outcome) => [{ outcome }, use[outcome]]) : []
  })
  metrics.read('instar_archive_kept_bytes', () => [[{}, log.archiveUse?.().keptBytes ?? 0]])
  metrics.read('instar_log_cut_refusals_total', () => [[{}, log.archiveUse?.().refused ?? 0]])
  const append: EventLog['append'] = async (records) => {
    const topic = records[0]?.topic
    if (topic === undefined) return log.append(records)
    const startedAt = performance.now()
    pending.set(topic, pending.get(topic)! + records.length)
    try {
      const positions = await log.append(records)
      metrics.observe('instar_log_append_duration_seconds', { topic }, (performance.now() - startedAt) / 1000)
      return positions
    } catch (error) {
      metrics.count('instar_log_append_failures_total', {
        topic,
        code: error instanceof InstarError ? error.code : 'internal',
      })
      throw error
    } finally {
      pending.set(topic, pending.get(topic)! - records.length)
    }
  }
  return logWith(log, { append })
}
