/** The files that the engine is built from, with exact versions and digests. */

export type Kind = 'cpu' | 'gpu'

/** A file of a registry. `megabytes`: approximate size of the download; `digest`: `<algorithm>-<base64 or hex>`. */
export type Part = {
  name: string
  version: string
  file: string
  from: 'pypi' | 'npm'
  digest: string
  megabytes: number
}

const TENSORFLOW = '2.21.0'
export const PACKAGE = { name: '@tensorflow/tfjs-node-gpu', version: '4.22.0' }

const wheel = (name: string, version: string, tag: string, sha256: string, megabytes: number): Part => ({
  name,
  version,
  file: `${name.replaceAll('-', '_')}-${version}-${tag}.whl`,
  from: 'pypi',
  digest: `sha256-${sha256}`,
  megabytes,
})

const npm = (name: string, version: string, sha512: string): Part => ({
  name,
  version,
  file: `${name.replace('@', '').replace('/', '-')}-${version}.tgz`,
  from: 'npm',
  digest: `sha512-${sha512}`,
  megabytes: 1,
})

export const SOURCES = npm(
  PACKAGE.name,
  PACKAGE.version,
  'p//NN6DGiN4hInUmIkRffaFVMcdTREUMjPyjW04J7OXvB2zBlQimj61eFKSgRrH3f5TnOfKzb0n56he/B6a4bw==',
)
/** The C headers of Node-API, which do not depend on the version of Node. */
export const HEADERS = npm(
  'node-api-headers',
  '1.9.0',
  '2oNILP4jXwRB4ywnYKjVk1YyJ96n2D4EOVJO6S3oYZ5PtbJrw3Yt9TpAuX3nBLMuzn74rnfGQrv13pS9vC+YiA==',
)

/** The wheel of any Python version serves, since only its C++ libraries and headers are used. */
const PLAIN = wheel(
  'tensorflow-cpu',
  TENSORFLOW,
  'cp311-cp311-manylinux_2_27_x86_64',
  '2b847d217b02ee7731ed91431daf3250daa0196c3c94614d23be27232e6e5b6c',
  274,
)

/** The libraries that eager kernels load, in the newest versions that TensorFlow's package metadata allows. */
const CUDA: readonly Part[] = [
  wheel(
    'tensorflow',
    TENSORFLOW,
    'cp311-cp311-manylinux_2_27_x86_64',
    '9056fbc9ba04235810b71ae6cbd958a196e8804fb53bbcffbf3e23b56155f124',
    573,
  ),
  wheel(
    'nvidia-cublas-cu12',
    '12.9.3.13',
    'py3-none-manylinux_2_27_x86_64',
    'd7d51055f161b317c7105ddaae90e71eda059026074ffef93cf7cde2886bfe72',
    581,
  ),
  wheel(
    'nvidia-cuda-nvrtc-cu12',
    '12.9.86',
    'py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64',
    '210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4',
    90,
  ),
  wheel(
    'nvidia-cuda-runtime-cu12',
    '12.9.79',
    'py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64',
    '25bba2dfb01d48a9b59ca474a1ac43c6ebf7011f1b0b8cc44f54eb6ac48a96c3',
    4,
  ),
  wheel(
    'nvidia-cudnn-cu12',
    '9.28.0.42',
    'py3-none-manylinux_2_27_x86_64',
    '9ff58b7f36dacd0a93e89f8f2957b52466889217963701daa15e577317cfa375',
    717,
  ),
  wheel(
    'nvidia-cufft-cu12',
    '11.4.1.4',
    'py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64',
    'c67884f2a7d276b4b80eb56a79322a95df592ae5e765cf1243693365ccab4e28',
    201,
  ),
  wheel(
    'nvidia-cusolver-cu12',
    '11.7.5.82',
    'py3-none-manylinux_2_27_x86_64',
    '15da72d1340d29b5b3cf3fd100e3cd53421dde36002eda6ed93811af63c40d88',
    338,
  ),
  wheel(
    'nvidia-cusparse-cu12',
    '12.5.10.65',
    'py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64',
    '73060ce019ac064a057267c585bf1fd5a353734151f87472ff02b2c5c9984e78',
    366,
  ),
  wheel(
    'nvidia-nvjitlink-cu12',
    '12.9.86',
    'py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64',
    'e3f1171dbdc83c5932a45f0f4c99180a70de9bd2718c1ab77d14104f6d7147f9',
    40,
  ),
]

export const wheelsOf = (kind: Kind): readonly Part[] => (kind === 'gpu' ? CUDA : [PLAIN])
export const partsOf = (kind: Kind): readonly Part[] => [SOURCES, HEADERS, ...wheelsOf(kind)]

/**
 * Patterns of the files that are unpacked from the wheels (`*` matches slashes as well): libraries, and the headers
 * that the addon includes.
 */
export const UNPACKED = [
  'tensorflow/libtensorflow_*',
  'tensorflow/include/tensorflow/*',
  'tensorflow/include/tsl/*',
  'tensorflow/include/xla/tsl/*',
  'nvidia/*/lib/*',
] as const

/** Megabytes on disk after the build. A wheel is removed after it is unpacked. */
const BUILT_MEGABYTES = { cpu: 900, gpu: 4800 } as const

/** Free megabytes that the build requires. `offline`: the wheels are read from a folder and need no room. */
export const roomFor = (kind: Kind, offline: boolean): number =>
  BUILT_MEGABYTES[kind] + (offline ? 0 : wheelsOf(kind).reduce((sum, { megabytes }) => sum + megabytes, 0)) + 100

/**
 * Folder of the wheel and name of the library, for each CUDA library that the addon is linked with. TensorFlow opens
 * them by name, and its own search path does not contain all of their folders; a library that the addon is linked with
 * is already loaded then.
 */
export const CUDA_LIBRARIES: readonly (readonly [folder: string, library: string])[] = [
  ['cublas', 'libcublas.so.12'],
  ['cublas', 'libcublasLt.so.12'],
  ['cuda_nvrtc', 'libnvrtc.so.12'],
  ['cuda_runtime', 'libcudart.so.12'],
  ['cudnn', 'libcudnn.so.9'],
  ['cufft', 'libcufft.so.11'],
  ['cusolver', 'libcusolver.so.11'],
  ['cusparse', 'libcusparse.so.12'],
  ['nvjitlink', 'libnvJitLink.so.12'],
]
