/** Patches to the copy of the package. Each pattern must match exactly once; otherwise the package has changed. */

type Patch = { file: string; pattern: RegExp; replacement: string; why: string }

const LEGACY = 'var util_1 = { isNullOrUndefined: (x) => x === null || x === undefined, isArray: Array.isArray };'
const legacy = (file: string): Patch => ({
  file,
  pattern: /var util_1 = require\("util"\);/,
  replacement: LEGACY,
  why: 'Node 23 removed these two functions of node:util',
})

/**
 * The unpatched binding shares the memory of typed arrays with TensorFlow and releases its reference on the thread that
 * frees the tensor, where calls to Node-API are not allowed (an event thread of a GPU, a worker that exits). The
 * patched binding copies them.
 */
const COPY = 'typed arrays are copied instead of shared'

export const PATCHES: readonly Patch[] = [
  legacy('dist/nodejs_kernel_backend.js'),
  legacy('dist/kernels/TopK.js'),
  {
    file: 'dist/nodejs_kernel_backend.js',
    pattern: /var messages = require\('\.\/proto\/api_pb'\);/,
    replacement: 'var messages = null;',
    why: 'only summaries for TensorBoard, which are not used, need this package',
  },
  { file: 'binding/tfjs_backend.cc', pattern: /static void DeallocTensor\([\s\S]*?\n\}\n/, replacement: '', why: COPY },
  {
    file: 'binding/tfjs_backend.cc',
    pattern:
      /NapiAutoRef \*auto_ref = new NapiAutoRef\(\);\s+nstatus = auto_ref->Init[\s\S]*?ENSURE_NAPI_OK_RETVAL\(env, nstatus, nullptr\);/,
    replacement: '',
    why: COPY,
  },
  {
    file: 'binding/tfjs_backend.cc',
    pattern: /TF_NewTensor\(dtype, shape, shape_length, array_data,\s+byte_size, DeallocTensor, auto_ref\)\);/,
    replacement:
      'TF_AllocateTensor(dtype, shape, shape_length, byte_size));\n  if (byte_size > 0) memcpy(TF_TensorData(tensor.tensor), array_data, byte_size);',
    why: COPY,
  },
  {
    file: 'binding/tfjs_backend.cc',
    pattern:
      /if \(TF_GetCode\(tf_status\.status\) != TF_OK\) \{\s+delete auto_ref;\s+TFE_DeleteTensorHandle\(tfe_tensor_handle\);\s+\}/,
    replacement: '',
    why: COPY,
  },
]

/**
 * Files that are added to the copy, by path. The package's JavaScript imports `@tensorflow/tfjs` and uses only its
 * core; a package of that name in the copy's `node_modules` re-exports the core package of the checkout.
 */
export const ADDED: Readonly<Record<string, string>> = {
  'node_modules/@tensorflow/tfjs/package.json': '{ "name": "@tensorflow/tfjs", "main": "index.js" }\n',
  'node_modules/@tensorflow/tfjs/index.js': "module.exports = require('@tensorflow/tfjs-core')\n",
}

/** Applies a patch. Throws `RangeError` if its pattern does not match exactly once. */
export function patched(text: string, patch: Patch): string {
  const found = [...text.matchAll(new RegExp(patch.pattern, 'g'))].length
  if (found !== 1)
    throw new RangeError(`${patch.file}: the pattern of a patch matches ${found} times instead of once (${patch.why})`)
  return text.replace(patch.pattern, () => patch.replacement)
}
