export * from './postgres/start.ts'
