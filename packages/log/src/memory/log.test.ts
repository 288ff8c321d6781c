import { openMemoryLog } from '../index.ts'
import { eventLogFeatures } from '../../../../test/kit/event-log/features.ts'
import type { OpenOptions } from '../../../../test/kit/event-log/harness.ts'

eventLogFeatures(
  'memory',
  async (options: OpenOptions = {}) => {
    const first = openMemoryLog(options)
    let log = first
    return {
      log,
      reopen: async (again = {}) => (log = openMemoryLog({ ...options, ...again, store: first.store })),
      remove: () => log.close(),
    }
  },
  { kills: 0 },
)
