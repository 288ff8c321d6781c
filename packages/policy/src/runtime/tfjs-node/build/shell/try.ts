/** `node try.ts FOLDER cpu|gpu`: loads the built engine, multiplies two matrices, prints version and device as JSON. */
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
if (product.join() !== '17,39')
  throw new Error(`[[1, 2], [3, 4]] · [5, 6] is 17,39; the engine returned ${product.join()}`)
const { tensorflow, gpu } = native
process.stdout.write(JSON.stringify({ tensorflow, gpu }))
