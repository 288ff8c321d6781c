/** How far the base is with the probes of the gate, before which a line does not start, from a gateway of its process. */
import { InstarError } from '@instar/events/errors'
import { requestAdmin } from './admin-client.ts'
import type { Config } from './config.ts'
import { POLICY } from './log-access.ts'

/** `of`: probes that are asked at most. */
export type Asking = { asked: number; of: number; kept: number }

type Gauge = { labels: Readonly<Record<string, string>>; value: number }
type Now = { policy?: string; started_at?: string | null; gauges?: Readonly<Record<string, readonly Gauge[]>> }

const TIMEOUT_MS = 2000

/** Null: no gateway answers, or its line has started. 'elsewhere': the publisher is another process. */
export const askingNow = async (config: Pick<Config, 'host' | 'port'>): Promise<Asking | 'elsewhere' | null> => {
  let now: Now
  try {
    now = await requestAdmin<Now>(config, '/v1/dashboard/now', undefined, { timeoutMs: TIMEOUT_MS })
  } catch (error) {
    if (error instanceof InstarError) return null
    throw error
  }
  if (now.policy !== POLICY || now.started_at !== null) return null
  const gauges = now.gauges?.['instar_base_probes'] ?? []
  const count = (name: string): number => gauges.find(({ labels }) => labels['figure'] === name)?.value ?? 0
  return count('of') > 0 ? { asked: count('asked'), of: count('of'), kept: count('kept') } : 'elsewhere'
}
