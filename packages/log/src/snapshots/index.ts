export { openSnapshots, type SnapshotOptions, type SnapshotStore } from './store.ts'
export { Snapshot } from './snapshot.ts'
export { storedByPolicy, storedScores, storedTurns, storedUpdates, storedWeights } from './folds.ts'
export { foldVersion } from './version.ts'
