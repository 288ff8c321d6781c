import { UsageError } from './command.ts'

export const ENGINES = ['auto', 'onnx', 'wasm'] as const

export const engineOf = (name: string): (typeof ENGINES)[number] => {
  const engine = ENGINES.find((one) => one === name)
  if (!engine) throw new UsageError(`--engine ${name}: one of ${ENGINES.join(', ')}`)
  return engine
}
