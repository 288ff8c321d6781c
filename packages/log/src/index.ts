export * from './port.ts'
export * from './blobs.ts'
export * from './turn-reader.ts'
