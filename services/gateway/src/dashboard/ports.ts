/** What the dashboard gets of the gateway's parts. */
import type { WeightLine } from '@instar/events'
import type { Metrics } from '@instar/process'
import type { ReadModel } from '@instar/projections/read-model'
import type { GatewayPorts } from '../ports.ts'
import type { GatewayState } from '../admin/core/report.ts'
import type { SessionIndex } from '../session/core/session-index.ts'
import type { Paced } from '../session/paced.ts'
import { createChecks, type Checked } from './checks.ts'
import { nowOf, shared } from './now.ts'
import { createLags } from './service-lag.ts'
import type { SamplePorts } from './sample.ts'
import type { turnLogprobs } from './turn-view.ts'

export type DashboardPorts = {
  /** Null: there is no database, and only `now` has data. */
  readModel: ReadModel | null
  now: () => number
  random: (bytes: number) => Uint8Array
  /** What the pipeline does now. */
  status: () => Promise<unknown>
  checks: () => Promise<Checked>
  /** The gate's limits for a version, as recorded. */
  limits: (version: number) => Readonly<Record<string, number>> | null
  text: () => Parameters<typeof turnLogprobs>[0] & { index: SessionIndex }
  monotonic: () => number
  readings: Paced
  sample: SamplePorts
}

type Parts = Pick<DashboardPorts, 'text' | 'readings'> &
  Omit<SamplePorts, 'readModel'> & {
    policy: string
    report: () => GatewayState
    metrics: Metrics
    line: () => WeightLine
  }

export const dashboardPorts = (
  { log, data, readModel, model, engine, now, random, monotonic = () => performance.now() }: GatewayPorts,
  { policy, report, metrics, line, text, readings, admitting, branch }: Parts,
): DashboardPorts => {
  const lags = createLags({ log, readModel: readModel ?? null, policy, now })
  return {
    readModel: readModel ?? null,
    now,
    random,
    monotonic,
    text,
    readings,
    sample: { admitting, branch, readModel: readModel ?? null },
    checks: createChecks({ log, data: data ?? null, readModel: readModel ?? null, model, engine, now }),
    status: shared(() => nowOf(report(), metrics, lags, now()), monotonic),
    limits: (version) => line().versions.get(version)?.published?.limits ?? null,
  }
}
