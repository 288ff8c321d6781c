export * from './errors.ts'
export * from './flow.ts'
