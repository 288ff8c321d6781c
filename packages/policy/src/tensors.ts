/** The operations of TensorFlow.js core, with the gradients of those that the loss uses. */
import './gradients.ts'

export * from '@tensorflow/tfjs-core'
