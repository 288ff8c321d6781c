/** What the dashboard gets of the gateway's parts. */
import type { WeightLine } from '@instar/events'
import type { Metrics } from '@instar/process'
import type { ReadModel } from '@instar/projections/read-model'
import type { GatewayState } from '../admin/core/report.ts'
import type { Paced } from '../session/paced.ts'
import { nowOf } from './now.ts'
import type { turnLogprobs } from './turn-view.ts'

export type DashboardPorts = {
  /** Null: there is no database, and only `now` has data. */
  readModel: ReadModel | null
  now: () => number
  random: (bytes: number) => Uint8Array
  /** What the pipeline does now. */
  status: () => Promise<unknown>
  /** The gate's limits for a version, as recorded. */
  limits: (version: number) => Readonly<Record<string, number>> | null
  text: () => Parameters<typeof turnLogprobs>[0]
  readings: Paced
}

type Parts = Pick<DashboardPorts, 'now' | 'random' | 'text' | 'readings'> & {
  readModel: ReadModel | undefined
  report: () => GatewayState
  metrics: Metrics
  line: () => WeightLine
}

export const dashboardPorts = ({
  readModel,
  report,
  metrics,
  line,
  now,
  random,
  text,
  readings,
}: Parts): DashboardPorts => ({
  readModel: readModel ?? null,
  now,
  random,
  text,
  readings,
  status: () => nowOf(report(), metrics, now()),
  limits: (version) => line().versions.get(version)?.published?.limits ?? null,
})
