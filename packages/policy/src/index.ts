export {
  openBase,
  openModel,
  openTokenizer,
  estimatedParameters,
  loadWeights,
  parameterCount,
} from './checkpoints/open.ts'
export { holdsWeights } from './checkpoints/folder.ts'
export {
  adapterDistance,
  adapterFromWeights,
  isNeutral,
  readAdapter,
  writeAdapter,
  type Lora,
} from './checkpoints/peft.ts'
export { readPeftFolder, tensorsDigest, type ReadFolder } from './checkpoints/peft-folder.ts'
export { startServing, type ServingOptions } from './serve/engine.ts'
export { startLearning, type LearningOptions } from './learn/engine.ts'
export { ENGINES, type EngineChoice } from './runtime/engines.ts'
export { createCoreShare, pausedMs, type CoreShare } from './share/core-share.ts'
