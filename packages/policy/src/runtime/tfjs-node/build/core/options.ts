/** The words of the command line. */
import { InstarError } from '@instar/events/errors'
import { partsOf, roomFor, type Kind } from './parts.ts'

export type Options = { kind: Kind; help: boolean; force: boolean; wheels: string | null; download: string | null }

const gigabytes = (megabytes: number): string => `${(megabytes / 1000).toFixed(1)} GB`

export const help = (): string => `npm run engine:tfjs-node [-- OPTIONS]

Builds the engine tfjs-node: the native addon of @tensorflow/tfjs-node-gpu against the TensorFlow library of the Python
package index, into .cache/tfjs-node of this checkout. Nothing else of Instar needs it; nothing is installed elsewhere.
Afterwards INSTAR_LEARN_ENGINE=tfjs-node learns with it (\`npx instar up\`, \`instar verify --engine tfjs-node\`, …).

  --gpu              TensorFlow with CUDA 12 and its libraries (${gigabytes(roomFor('gpu', false))} while it builds, ${gigabytes(roomFor('gpu', true))} after); needs an
                     NVIDIA driver of 555 or newer when it runs, and computes on the CPU where there is none. The one
                     for the CPU takes ${gigabytes(roomFor('cpu', false))}, then ${gigabytes(roomFor('cpu', true))}. Of both, the one for GPUs is used
  --download FOLDER  only fetch the ${partsOf('cpu').length} files (with --gpu: ${partsOf('gpu').length}) into FOLDER, to be carried to a machine without a network
  --wheels FOLDER    take the files from FOLDER; no network is used
  --force            build again although it is there
  --help             this text

Needs Linux on x64, g++ (or what CXX names) and python3, whose pip fetches the wheels; no Python is used afterwards.
Every file is held against a digest. A second run sees what is there and takes a second.
`

/** Throws `bad_request` for words that are not options. */
export function optionsOf(words: readonly string[]): Options {
  const options: Options = { kind: 'cpu', help: false, force: false, wheels: null, download: null }
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    const [name = '', joined] = word.split(/=(.*)/s)
    const folder = (): string => {
      const value = joined ?? words[++at]
      if (value === undefined || value === '' || value.startsWith('--'))
        throw new InstarError('bad_request', `${name} needs a folder`, { option: name })
      return value
    }
    if (word === '--gpu') options.kind = 'gpu'
    else if (word === '--help' || word === '-h') options.help = true
    else if (word === '--force') options.force = true
    else if (name === '--wheels') options.wheels = folder()
    else if (name === '--download') options.download = folder()
    else throw new InstarError('bad_request', `${word} is not an option; --help lists them`, { option: word })
  }
  if (options.wheels !== null && options.download !== null)
    throw new InstarError('bad_request', '--wheels takes files from a folder, --download puts them there: choose one', {
      option: '--wheels',
    })
  return options
}
