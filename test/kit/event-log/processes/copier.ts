/** `node copier.ts SOURCE DESTINATION`: copies, and prints its progress, one line per step. */
import { copyLog, openEmbeddedLog } from '@instar/log'
import { SCHEMAS } from '../harness.ts'

const [source, destination] = process.argv.slice(2) as [string, string]
const from = await openEmbeddedLog({ folder: source, readOnly: true })
const to = await openEmbeddedLog({ folder: destination, schemas: SCHEMAS })
const { copied, skipped, equal } = await copyLog({
  from,
  to,
  onProgress: ({ phase, topic, share }) => void process.stdout.write(`${phase}/${topic}/${share}\n`),
})
process.stdout.write(`done ${JSON.stringify({ copied, skipped, equal })}\n`)
await from.close()
await to.close()
