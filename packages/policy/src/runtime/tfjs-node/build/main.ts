/** `npm run engine:tfjs-node [-- OPTIONS]`; the options are in core/options.ts. */
import { ERRORS, InstarError } from '@instar/events/errors'
import { resolve } from 'node:path'
import { ENGINES_FOLDER } from '../build-folder.ts'
import { help, optionsOf } from './core/options.ts'
import { build, download, type BuildPorts } from './shell/build.ts'

const { CXX, npm_execpath: npm, INIT_CWD } = process.env
const print = (line: string): void => {
  process.stderr.write(`${line}\n`)
}
const ports: BuildPorts = {
  folder: ENGINES_FOLDER,
  machine: `${process.platform}-${process.arch}`,
  npm,
  compiler: CXX === '' ? undefined : CXX,
  print,
  terminal: process.stderr.isTTY,
}
/** Resolves a folder against the directory in which npm was started, since npm changes into the repository. */
const fromStart = (folder: string): string => resolve(INIT_CWD ?? process.cwd(), folder)

try {
  const options = optionsOf(process.argv.slice(2))
  if (options.help) process.stdout.write(help())
  else if (options.download !== null) {
    const files = await download(ports, options.kind, fromStart(options.download))
    process.stdout.write(`${files.join('\n')}\n`)
  } else {
    const began = performance.now()
    const { kind, tensorflow, folder, gpu, upToDate } = await build(ports, {
      kind: options.kind,
      force: options.force,
      wheels: options.wheels === null ? null : fromStart(options.wheels),
    })
    const device =
      gpu === null
        ? kind === 'gpu'
          ? 'no GPU is available, so it computes on the CPU'
          : 'on the CPU'
        : `on the GPU ${gpu}`
    process.stdout.write(
      `tfjs-node: TensorFlow ${tensorflow} ${device}\n${upToDate ? 'up to date' : `built in ${Math.round((performance.now() - began) / 1000)} s`}: ${folder}\nSet INSTAR_LEARN_ENGINE=tfjs-node to learn with it.\n`,
    )
  }
} catch (error) {
  if (!(error instanceof InstarError)) throw error
  print(`instar: ${error.message}${error.code === 'engine_build_failed' ? '' : `\n${ERRORS[error.code].todo}`}`)
  process.exitCode = 1
}
