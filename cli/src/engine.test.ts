import { equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { UsageError } from './command.ts'
import { engineOf, learnEngineOf } from './engine.ts'

test('what learns: its own option, then INSTAR_LEARN_ENGINE, then the option for both', () => {
  equal(learnEngineOf('wasm', 'tfjs-node', 'onnx'), 'wasm')
  equal(learnEngineOf('auto', 'tfjs-node', 'onnx'), 'auto')
  equal(learnEngineOf(undefined, 'tfjs-node', 'onnx'), 'tfjs-node')
  equal(learnEngineOf(undefined, 'auto', 'wasm'), 'wasm')
  equal(learnEngineOf(undefined, 'auto', undefined), 'auto')
})

test('an engine that there is not names its option', () => {
  throws(
    () => engineOf('cuda'),
    (error: unknown) =>
      error instanceof UsageError && /--engine cuda: one of auto, onnx, wasm, tfjs-node/.test(error.message),
  )
  throws(() => learnEngineOf('cuda', 'auto', undefined), /--learn-engine cuda/)
})
