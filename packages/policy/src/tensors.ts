/** TensorFlow.js as the model uses it: the operations of its core, with the gradients that it needs. */
import './gradients.ts'

export * from '@tensorflow/tfjs-core'
