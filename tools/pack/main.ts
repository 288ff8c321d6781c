/**
 * `npm run pack [-- --out FOLDER]`: builds Instar into one tarball that installs without a clone
 * (`npm install --ignore-scripts ./instar-VERSION.tgz`). Node does not strip types inside node_modules, so the package
 * holds each module as JavaScript. It holds the source too, so that the source digests in versions and snapshots equal
 * those of the repository. Prints the tarball's path and sizes as one line of JSON.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { contents, readManifest } from './contents.ts'
import { packedManifest, type Lock } from './manifest.ts'
import { builtPath, buildModule } from './modules.ts'
import { npmPack } from './shell/npm.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const { values } = parseArgs({ options: { out: { type: 'string', default: join(ROOT, 'dist') } } })
const out = resolve(values.out)
const stage = mkdtempSync(join(tmpdir(), 'instar-pack-'))
try {
  const { modules, assets } = contents(ROOT)
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
  const packedModules = new Set(modules)
  const writeStaged = (path: string, text: string): void => {
    mkdirSync(dirname(join(stage, path)), { recursive: true })
    writeFileSync(join(stage, path), text)
  }
  for (const path of modules) {
    const text = readFileSync(join(ROOT, path), 'utf8')
    writeStaged(path, text)
    writeStaged(builtPath(path), buildModule(ROOT, path, text, packedModules))
  }
  for (const path of assets) cpSync(join(ROOT, path), join(stage, path))
  writeStaged('package.json', `${JSON.stringify(packedManifest(readManifest(ROOT), lock), null, 2)}\n`)
  mkdirSync(out, { recursive: true })
  const { filename, size, unpackedSize, entryCount } = await npmPack(stage, out)
  process.stdout.write(
    `${JSON.stringify({ file: join(out, filename), packed_bytes: size, unpacked_bytes: unpackedSize, files: entryCount })}\n`,
  )
} finally {
  rmSync(stage, { recursive: true, force: true })
}
