export type { KafkaLog } from './log.ts'
export { openKafkaLog } from './open.ts'
export type { KafkaOptions } from './options.ts'
export type { RegistryAccess } from './registry-client.ts'
export type { SchemaRow } from './schema-rows.ts'
export { type Security } from './security.ts'
export { setupKafka, type SetupReport } from './setup.ts'
export { registerSchemas, setupSchemas, type SchemasReport } from './register.ts'
export { brokersOf } from './topics.ts'
export type { DeadLetter } from './dead-letters.ts'
export {
  groupLags,
  inspectCluster,
  storedPartitions,
  storedSchemas,
  type ClusterState,
  type GroupLag,
  type InspectOptions,
  type TopicState,
} from './inspect.ts'
export { COMPATIBILITY_LEVEL, inspectRegistry, type RegistryState } from './inspect-registry.ts'
export { NOT_OF_THE_LOG } from './wire-format.ts'
