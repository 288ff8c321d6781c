import { equal, throws } from 'node:assert/strict'
import { test } from 'node:test'
import { UsageError } from './command.ts'
import { parseEngine, parseLearnEngine } from './engine.ts'

test('--learn-engine precedes INSTAR_LEARN_ENGINE, which precedes --engine', () => {
  equal(parseLearnEngine('wasm', 'tfjs-node', 'onnx'), 'wasm')
  equal(parseLearnEngine('auto', 'tfjs-node', 'onnx'), 'auto')
  equal(parseLearnEngine(undefined, 'tfjs-node', 'onnx'), 'tfjs-node')
  equal(parseLearnEngine(undefined, 'auto', 'wasm'), 'wasm')
  equal(parseLearnEngine(undefined, 'auto', undefined), 'auto')
})

test('the error of an unknown engine names the option and the engines', () => {
  throws(
    () => parseEngine('cuda'),
    (error: unknown) =>
      error instanceof UsageError && /--engine cuda: must be one of auto, onnx, wasm, tfjs-node/.test(error.message),
  )
  throws(() => parseLearnEngine('cuda', 'auto', undefined), /--learn-engine cuda/)
})
