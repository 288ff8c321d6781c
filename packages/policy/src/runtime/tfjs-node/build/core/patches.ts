/** What is changed in the package's copy. Each pattern must be found exactly once: another text is another package. */

export type Patch = { file: string; find: RegExp; put: string; why: string }

const LEGACY = 'var util_1 = { isNullOrUndefined: (x) => x === null || x === undefined, isArray: Array.isArray };'
const legacy = (file: string): Patch => ({
  file,
  find: /var util_1 = require\("util"\);/,
  put: LEGACY,
  why: 'Node 23 removed these two functions of node:util',
})

/**
 * The binding lends typed arrays to TensorFlow and takes them back on whichever thread drops the last use, where
 * Node-API may not be called (an event thread of a GPU, the end of a worker). Here they are copied.
 */
const COPY = 'typed arrays are copied, not lent'

export const PATCHES: readonly Patch[] = [
  legacy('dist/nodejs_kernel_backend.js'),
  legacy('dist/kernels/TopK.js'),
  {
    file: 'dist/nodejs_kernel_backend.js',
    find: /var messages = require\('\.\/proto\/api_pb'\);/,
    put: 'var messages = null;',
    why: 'summaries for TensorBoard, which nothing here writes, want another package',
  },
  { file: 'binding/tfjs_backend.cc', find: /static void DeallocTensor\([\s\S]*?\n\}\n/, put: '', why: COPY },
  {
    file: 'binding/tfjs_backend.cc',
    find: /NapiAutoRef \*auto_ref = new NapiAutoRef\(\);\s+nstatus = auto_ref->Init[\s\S]*?ENSURE_NAPI_OK_RETVAL\(env, nstatus, nullptr\);/,
    put: '',
    why: COPY,
  },
  {
    file: 'binding/tfjs_backend.cc',
    find: /TF_NewTensor\(dtype, shape, shape_length, array_data,\s+byte_size, DeallocTensor, auto_ref\)\);/,
    put: 'TF_AllocateTensor(dtype, shape, shape_length, byte_size));\n  if (byte_size > 0) memcpy(TF_TensorData(tensor.tensor), array_data, byte_size);',
    why: COPY,
  },
  {
    file: 'binding/tfjs_backend.cc',
    find: /if \(TF_GetCode\(tf_status\.status\) != TF_OK\) \{\s+delete auto_ref;\s+TFE_DeleteTensorHandle\(tfe_tensor_handle\);\s+\}/,
    put: '',
    why: COPY,
  },
]

/**
 * What the package's JavaScript takes from `@tensorflow/tfjs` is all in its core, which the model uses: a package of
 * that name in the copy's own `node_modules` hands on the checkout's core. Files by path inside the copy.
 */
export const ADDED: Readonly<Record<string, string>> = {
  'node_modules/@tensorflow/tfjs/package.json': '{ "name": "@tensorflow/tfjs", "main": "index.js" }\n',
  'node_modules/@tensorflow/tfjs/index.js': "module.exports = require('@tensorflow/tfjs-core')\n",
}

/** Throws `RangeError` with the patch's file where its text is not there exactly once. */
export function patched(text: string, patch: Patch): string {
  const found = [...text.matchAll(new RegExp(patch.find, 'g'))].length
  if (found !== 1)
    throw new RangeError(`${patch.file}: the text to be changed stands there ${found} times, not once (${patch.why})`)
  return text.replace(patch.find, () => patch.put)
}
