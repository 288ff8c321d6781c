/** The engines by name. `auto`: onnx where it loads, else wasm; tfjs-node is never taken unasked. */
export const ENGINES = ['auto', 'onnx', 'wasm', 'tfjs-node'] as const
export type EngineChoice = (typeof ENGINES)[number]
