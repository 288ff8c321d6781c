/** Runs `npm pack` with the npm that bootstrap.cjs finds. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { text } from 'node:stream/consumers'

type NpmCommand = { file: string; args: string[]; shell: boolean }
const { npmCommand } = createRequire(import.meta.url)('../../../bootstrap.cjs') as { npmCommand: () => NpmCommand }

export type Packed = { filename: string; size: number; unpackedSize: number; entryCount: number }

/** Packs `folder` into one tarball in `destination`. Throws if npm fails. */
export async function npmPack(folder: string, destination: string): Promise<Packed> {
  const { file, args, shell } = npmCommand()
  const packArgs = [...args, 'pack', '--json', '--ignore-scripts', '--pack-destination', destination]
  const child = spawn(file, packArgs, { cwd: folder, shell, stdio: ['ignore', 'pipe', 'inherit'] })
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close') as Promise<[number | null]>])
  if (code !== 0) throw new Error(`npm pack failed with exit code ${code}:\n${output}`)
  const packed = JSON.parse(output) as Packed[] | Record<string, Packed>
  return Object.values(packed)[0]!
}
