/**
 * `npm run pack [-- --out FOLDER]`: builds Instar into one tarball that installs without a clone
 * (`npm install --ignore-scripts ./instar-VERSION.tgz`). Node strips no types inside node_modules, so each module goes along as
 * JavaScript, with its source beside it: the digests of sources that versions and snapshots carry are those of the repository.
 * Prints the tarball's path and sizes as one line of JSON.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { contents, readManifest } from './contents.ts'
import { packedManifest, type Lock } from './manifest.ts'
import { build, built } from './modules.ts'
import { npmPack } from './shell/npm.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const { values } = parseArgs({ options: { out: { type: 'string', default: join(ROOT, 'dist') } } })
const out = resolve(values.out)
const stage = mkdtempSync(join(tmpdir(), 'instar-pack-'))
try {
  const { modules, assets } = contents(ROOT)
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock
  const known = new Set(modules)
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(stage, path)), { recursive: true })
    writeFileSync(join(stage, path), text)
  }
  for (const path of modules) {
    const text = readFileSync(join(ROOT, path), 'utf8')
    put(path, text)
    put(built(path), build(ROOT, path, text, known))
  }
  for (const path of assets) cpSync(join(ROOT, path), join(stage, path))
  put('package.json', `${JSON.stringify(packedManifest(readManifest(ROOT), lock), null, 2)}\n`)
  mkdirSync(out, { recursive: true })
  const { filename, size, unpackedSize, entryCount } = await npmPack(stage, out)
  process.stdout.write(
    `${JSON.stringify({ file: join(out, filename), packed_bytes: size, unpacked_bytes: unpackedSize, files: entryCount })}\n`,
  )
} finally {
  rmSync(stage, { recursive: true, force: true })
}
