/**
 * Registers the gradients of the operations through which the loss is differentiated. The core package of
 * TensorFlow.js registers none in Node; its umbrella package does, at the cost of five packages (222 MB) that are not
 * used otherwise. Differentiating an operation that is not listed here throws an error with its name.
 *
 * dy is the derivative of the loss with respect to the result, in the result's shape. Each returned tensor has the
 * shape of the input under whose name it is returned. Matrix products must not broadcast their batch dimensions.
 */
import * as tf from '@tensorflow/tfjs-core'

type Gradients = Record<string, () => tf.Tensor>
type GradientRule = Omit<tf.GradConfig, 'kernelName' | 'gradFunc'> & {
  gradient(dy: tf.Tensor, saved: readonly tf.Tensor[], attributes: tf.NamedAttrMap): Gradients
}

/** Sums dy over the axes along which an input of this shape was broadcast. */
const unbroadcast = (dy: tf.Tensor, shape: number[]): tf.Tensor => {
  const axes = tf.broadcast_util.getReductionAxes(shape, dy.shape)
  const summed = axes.length > 0 ? tf.sum(dy, axes) : dy
  return tf.util.arraysEqual(summed.shape, shape) ? summed : tf.reshape(summed, shape)
}

const at = (saved: readonly tf.Tensor[], index: number): tf.Tensor => {
  const tensor = saved[index]
  if (!tensor) throw new Error(`the gradient needs saved tensor ${index}; ${saved.length} tensors were saved`)
  return tensor
}

const AB = { inputsToSave: ['a', 'b'] }
const X = { inputsToSave: ['x'] }
const RESULT = { outputsToSave: [true] }

const RULES: Readonly<Record<string, GradientRule>> = {
  Add: {
    ...AB,
    gradient: (dy, saved) => ({
      a: () => unbroadcast(dy, at(saved, 0).shape),
      b: () => unbroadcast(dy, at(saved, 1).shape),
    }),
  },
  Sub: {
    ...AB,
    gradient: (dy, saved) => ({
      a: () => unbroadcast(dy, at(saved, 0).shape),
      b: () => tf.neg(unbroadcast(dy, at(saved, 1).shape)),
    }),
  },
  Multiply: {
    ...AB,
    gradient: (dy, saved) => ({
      a: () => unbroadcast(tf.mul(dy, at(saved, 1)), at(saved, 0).shape),
      b: () => unbroadcast(tf.mul(dy, at(saved, 0)), at(saved, 1).shape),
    }),
  },
  /** Inputs of equal shape. Where their values are equal, `a` gets dy and `b` zero. */
  Minimum: {
    ...AB,
    gradient: (dy, saved) => ({
      a: () => tf.mul(dy, tf.cast(tf.lessEqual(at(saved, 0), at(saved, 1)), 'float32')),
      b: () => tf.mul(dy, tf.cast(tf.greater(at(saved, 0), at(saved, 1)), 'float32')),
    }),
  },
  Neg: { gradient: (dy) => ({ x: () => tf.neg(dy) }) },
  Exp: { ...RESULT, gradient: (dy, saved) => ({ x: () => tf.mul(dy, at(saved, 0)) }) },
  Log: { ...X, gradient: (dy, saved) => ({ x: () => tf.div(dy, at(saved, 0)) }) },
  /** dy within the limits, both included; zero outside. */
  ClipByValue: {
    ...X,
    gradient: (dy, saved, { clipValueMin, clipValueMax }) => ({
      x: () => {
        const x = at(saved, 0)
        const within = tf.logicalAnd(
          tf.greaterEqual(x, clipValueMin as number),
          tf.lessEqual(x, clipValueMax as number),
        )
        return tf.where(within, dy, tf.zerosLike(dy))
      },
    }),
  },
  Sum: {
    ...X,
    gradient: (dy, saved, { axis }) => ({
      x: () => {
        const { shape } = at(saved, 0)
        const axes = tf.util.parseAxisParam(axis as number | number[], shape)
        const keepDimsShape = shape.map((size, dimension) => (axes.includes(dimension) ? 1 : size))
        return tf.mul(tf.reshape(dy, keepDimsShape), tf.ones(shape, 'float32'))
      },
    }),
  },
  /** y ∘ dy − (Σ y ∘ dy) ∘ y, the sum over the last axis. */
  Softmax: {
    ...RESULT,
    gradient: (dy, saved, { dim }) => ({
      logits: () => {
        const y = at(saved, 0)
        const weighted = tf.mul(dy, y)
        return tf.sub(weighted, tf.mul(tf.sum(weighted, [dim as number], true), y))
      },
    }),
  },
  BatchMatMul: {
    ...AB,
    gradient: (dy, saved, { transposeA, transposeB }) => ({
      a: () =>
        transposeA
          ? tf.matMul(at(saved, 1), dy, transposeB as boolean, true)
          : tf.matMul(dy, at(saved, 1), false, !transposeB),
      b: () =>
        transposeB
          ? tf.matMul(dy, at(saved, 0), true, transposeA as boolean)
          : tf.matMul(at(saved, 0), dy, !transposeA, false),
    }),
  },
  Reshape: { ...X, gradient: (dy, saved) => ({ x: () => tf.reshape(dy, at(saved, 0).shape) }) },
  Transpose: {
    gradient: (dy, _saved, { perm }) => ({
      x: () => tf.transpose(dy, tf.backend_util.getUndoAxesPermutation(perm as number[])),
    }),
  },
  Concat: {
    saveAllInputs: true,
    gradient: (dy, saved, { axis }) => {
      const concatAxis = tf.util.parseAxisParam(axis as number, at(saved, 0).shape)[0] ?? 0
      const parts = tf.split(
        dy,
        saved.map(({ shape }) => shape[concatAxis] ?? 0),
        concatAxis,
      )
      return Object.fromEntries(parts.map((part, index) => [index, () => part]))
    },
  },
  SplitV: {
    gradient: (dy, _saved, { axis }) => ({ x: () => tf.concat(dy as unknown as tf.Tensor[], axis as number) }),
  },
  /** Rows of x by index: a row with several indices gets the sum of their gradients. */
  GatherV2: {
    inputsToSave: ['x', 'indices'],
    gradient: (dy, saved, { axis, batchDims }) => {
      const [x, indices] = [at(saved, 0), at(saved, 1)]
      if (axis !== 0 || batchDims !== 0 || indices.rank !== 1) {
        const form = `axis ${JSON.stringify(axis)}, indices of rank ${indices.rank}`
        throw new Error(`the gradient of gather supports axis 0 and indices of rank 1 only, not ${form}`)
      }
      return { x: () => tf.unsortedSegmentSum(dy, indices as tf.Tensor1D, x.shape[0] ?? 0), indices: () => indices }
    },
  },
}

for (const [kernelName, { gradient, ...config }] of Object.entries(RULES)) {
  if (tf.getGradient(kernelName)) continue
  tf.registerGradient({
    kernelName,
    ...config,
    gradFunc: (dy, saved, attributes) => gradient(dy as tf.Tensor, saved, attributes),
  })
}
