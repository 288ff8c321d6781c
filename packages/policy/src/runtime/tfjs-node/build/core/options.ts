/** The command line options of the build. */
import { InstarError } from '@instar/events/errors'
import { partsOf, roomFor, type Kind } from './parts.ts'

export type Options = { kind: Kind; help: boolean; force: boolean; wheels: string | null; download: string | null }

const gigabytes = (megabytes: number): string => `${(megabytes / 1000).toFixed(1)} GB`

export const help = (): string => `npm run engine:tfjs-node [-- OPTIONS]

Builds the engine tfjs-node: the native addon of @tensorflow/tfjs-node-gpu against the TensorFlow library of the Python
package index, into .cache/tfjs-node of this checkout. The other engines do not need it; nothing is installed elsewhere.
Set INSTAR_LEARN_ENGINE=tfjs-node to learn with it (\`npx instar up\`, \`instar verify --engine tfjs-node\`, …).

  --gpu              build for CUDA 12, with its libraries (${gigabytes(roomFor('gpu', false))} during the build, ${gigabytes(roomFor('gpu', true))} afterwards). It needs an
                     NVIDIA driver of version 555 or newer; without a driver it computes on the CPU. The build for
                     the CPU takes ${gigabytes(roomFor('cpu', false))}, then ${gigabytes(roomFor('cpu', true))}. If both are built, the one for GPUs is used
  --download FOLDER  only download the ${partsOf('cpu').length} files (with --gpu: ${partsOf('gpu').length}) into FOLDER, for a machine without a network
  --wheels FOLDER    read the files from FOLDER instead of the network
  --force            build again even if the build is up to date
  --help             print this text

Requires Linux on x64, g++ (or the compiler in CXX) and python3 with pip; only the build uses Python.
The digest of every file is verified. A build that is up to date is not repeated.
`

/** Throws `bad_request` for unknown options and missing values. */
export function optionsOf(words: readonly string[]): Options {
  const options: Options = { kind: 'cpu', help: false, force: false, wheels: null, download: null }
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    const [name = '', joined] = word.split(/=(.*)/s)
    const folder = (): string => {
      const value = joined ?? words[++at]
      if (value === undefined || value === '' || value.startsWith('--'))
        throw new InstarError('bad_request', `${name} requires a folder`, { option: name })
      return value
    }
    if (word === '--gpu') options.kind = 'gpu'
    else if (word === '--help' || word === '-h') options.help = true
    else if (word === '--force') options.force = true
    else if (name === '--wheels') options.wheels = folder()
    else if (name === '--download') options.download = folder()
    else throw new InstarError('bad_request', `${word} is not an option; --help lists the options`, { option: word })
  }
  if (options.wheels !== null && options.download !== null)
    throw new InstarError(
      'bad_request',
      '--wheels and --download exclude each other: the first reads files from a folder, the second writes them',
      {
        option: '--wheels',
      },
    )
  return options
}
