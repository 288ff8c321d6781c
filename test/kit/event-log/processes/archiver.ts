/** `node archiver.ts LOG ARCHIVE`: archives in objects of 64 KB, and prints its progress, one line per step. */
import { openEmbeddedLog, openFolderStore, writeArchive } from '@instar/log'

const [source, place] = process.argv.slice(2) as [string, string]
const from = await openEmbeddedLog({ folder: source, readOnly: true })
const to = openFolderStore(place, true)
const { added } = await writeArchive({
  from,
  schemas: () => from.schemas(),
  to,
  sizes: { object: 64 << 10, manifest: 512 << 10 },
  onProgress: ({ topic, share }) => void process.stdout.write(`${topic}/${share}\n`),
})
process.stdout.write(`done ${JSON.stringify(added)}\n`)
await from.close()
await to.close()
