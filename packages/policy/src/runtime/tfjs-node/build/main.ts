/** `npm run engine:tfjs-node [-- OPTIONS]`; see core/options.ts for the words. */
import { ERRORS, InstarError } from '@instar/events/errors'
import { resolve } from 'node:path'
import { ENGINES_FOLDER } from '../place.ts'
import { help, optionsOf } from './core/options.ts'
import { build, download, type BuildPorts } from './shell/build.ts'

const { CXX, npm_execpath: npm, INIT_CWD } = process.env
const say = (line: string): void => {
  process.stderr.write(`${line}\n`)
}
const world: BuildPorts = {
  folder: ENGINES_FOLDER,
  machine: `${process.platform}-${process.arch}`,
  npm,
  compiler: CXX === '' ? undefined : CXX,
  say,
  terminal: process.stderr.isTTY,
}
/** npm changes into the repository; a folder is meant from where the person stands. */
const from = (folder: string): string => resolve(INIT_CWD ?? process.cwd(), folder)

try {
  const options = optionsOf(process.argv.slice(2))
  if (options.help) process.stdout.write(help())
  else if (options.download !== null) {
    const files = await download(world, options.kind, from(options.download))
    process.stdout.write(`${files.join('\n')}\n`)
  } else {
    const began = performance.now()
    const { kind, tensorflow, folder, gpu, again } = await build(world, {
      kind: options.kind,
      force: options.force,
      wheels: options.wheels === null ? null : from(options.wheels),
    })
    const device =
      gpu === null
        ? kind === 'gpu'
          ? 'no GPU answers here, so it computes on the CPU'
          : 'on the CPU'
        : `on the GPU ${gpu}`
    process.stdout.write(
      `tfjs-node: TensorFlow ${tensorflow} ${device}\n${again ? 'is there already' : `built in ${Math.round((performance.now() - began) / 1000)} s`}: ${folder}\nINSTAR_LEARN_ENGINE=tfjs-node learns with it\n`,
    )
  }
} catch (error) {
  if (!(error instanceof InstarError)) throw error
  say(`instar: ${error.message}${error.code === 'engine_build_failed' ? '' : `\n${ERRORS[error.code].todo}`}`)
  process.exitCode = 1
}
