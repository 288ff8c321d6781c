export {
  startPostgres,
  runningPostgres,
  type DatabaseConnection,
  type Postgres,
  type StartOptions,
} from './postgres/start.ts'
export { setupDatabase } from './postgres/setup.ts'
export { type ReaderLogin } from './postgres/reader.ts'
export { watchProjections } from './metrics.ts'
export { startProjections, type Projections } from './run.ts'
export { readOnlyQuery, type QueryRow } from './query.ts'
export { project, PROJECTED, type Projection } from './project.ts'
export { inspectDatabase, type DatabaseFound, type Migrations, type StoredMark, type PendingWork } from './inspect.ts'
