/** `node try.ts FOLDER cpu|gpu`: loads what was built, multiplies two matrices, prints what computed as JSON. */
import * as tf from '../../../../tensors.ts'
import { LIBRARY, loadNative } from '../../native.ts'

const [folder = '', kind] = process.argv.slice(2)
const native = loadNative(folder, kind === 'gpu' ? 'gpu' : 'cpu', 1)
await tf.setBackend(LIBRARY)
const product = tf
  .matMul(
    tf.tensor2d([
      [1, 2],
      [3, 4],
    ]),
    tf.tensor2d([[5], [6]]),
  )
  .dataSync()
if (product.join() !== '17,39') throw new Error(`[[1, 2], [3, 4]] · [5, 6] is ${product.join()} there`)
const { tensorflow, gpu } = native
process.stdout.write(JSON.stringify({ tensorflow, gpu }))
