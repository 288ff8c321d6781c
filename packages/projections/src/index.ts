export {
  startPostgres,
  runningPostgres,
  type DatabaseConnection,
  type Postgres,
  type StartOptions,
} from './postgres/start.ts'
export { setupDatabase, setupRoles, type RolesWanted } from './postgres/setup.ts'
export { READER, READER_TIMEOUT, type ReaderLogin } from './postgres/reader.ts'
export { watchProjections } from './metrics.ts'
export { startProjections, type Projections, type ProjectionsOptions } from './run.ts'
export { readOnlyQuery, type QueryRow } from './query.ts'
export { initialProjection, project, PROJECTED, type Projection } from './project.ts'
export { noRows, type ProjectedRows } from './rows.ts'
export { inspectDatabase, type DatabaseFound, type Migrations, type StoredMark, type PendingWork } from './inspect.ts'
