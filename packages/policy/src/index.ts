export * from './port.ts'
export { openModel, loadWeights } from './checkpoints/open.ts'
export { adapterFromWeights, readAdapter, writeAdapter, type Lora } from './checkpoints/peft.ts'
