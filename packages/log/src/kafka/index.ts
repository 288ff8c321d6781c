export { openKafkaLog, type KafkaLog } from './log.ts'
export type { KafkaOptions } from './options.ts'
export type { RegistryAccess } from './registry-client.ts'
export type { SchemaRow } from './schema-rows.ts'
export { SASL_MECHANISMS, type SaslMechanism, type Security } from './security.ts'
export { setupKafka, type SetupOptions, type SetupReport } from './setup.ts'
export {
  registerSchemas,
  setupSchemas,
  type RegisterOptions,
  type SchemasReport,
  type SetupSchemasOptions,
} from './register.ts'
export { brokersOf } from './topics.ts'
export type { DeadLetter } from './dead-letters.ts'
export {
  groupLags,
  inspectCluster,
  storedPartitions,
  storedSchemas,
  type ClusterFound,
  type GroupLag,
  type InspectOptions,
  type TopicFound,
} from './inspect.ts'
export { COMPATIBILITY_LEVEL, inspectRegistry, type RegistryFound, type SubjectFound } from './inspect-registry.ts'
