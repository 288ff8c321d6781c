export {
  adminTokenIn,
  PARTITIONS_FORM,
  partitionsOf,
  readSettings,
  type Environment,
  type Settings,
} from './environment.ts'
export { logFolder, logTarget, openKafka, openLog, type LogSettings } from './shell/open-log.ts'
export { VERSION } from './version.ts'
export { kafkaSecurity, registryOf } from './shell/access.ts'
export { runDecider, type Decider, type DeciderOptions, type DeciderPorts, type Fault, type Wait } from './decider.ts'
export { startHealth, type Health } from './shell/health.ts'
export { hostOf } from './shell/host.ts'
export { runService, type Host, type Service, type World } from './shell/run.ts'
export { createMetrics, METRICS_TYPE, NO_METRICS, type Metrics, type MetricValues } from './metrics/metrics.ts'
export { serviceLog } from './service-log.ts'
export { measuredLog } from './metrics/measured-log.ts'
