/** Names of the engines. `auto`: onnx if it loads, else wasm; tfjs-node is used only if it is named. */
export const ENGINES = ['auto', 'onnx', 'wasm', 'tfjs-node'] as const
export type EngineChoice = (typeof ENGINES)[number]
