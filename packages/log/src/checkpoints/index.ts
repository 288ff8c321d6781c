export { type StoredFold } from './fold.ts'
export { checkpointsOn, type Checkpoint } from './on-log.ts'
export { writeCheckpoint, type CheckpointReport } from './write.ts'
export { verifyCheckpoints, type CheckedCheckpoint, type CheckpointsReport } from './verify.ts'
