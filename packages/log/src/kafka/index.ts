export { openKafkaLog, type KafkaLog, type KafkaOptions } from './log.ts'
export { setupKafka, type SetupOptions, type SetupReport } from './setup.ts'
export { registerSchemas, type RegisterOptions } from './schemas.ts'
export type { DeadLetter } from './dead-letters.ts'
