/** Cuts an embedded log, and after the step that it prints waits to be killed. Arguments: folder, archive, step. */
import { Archive, openEmbeddedLog, openFolderStore } from '@instar/log'
import { WriteQueue } from '../../../../packages/log/src/embedded/write-queue.ts'
import { cutAll } from '../cutting.ts'
import { CUT_SCHEMAS } from '../harness.ts'

const [, , folder = '', place = '', step = ''] = process.argv
const waits = (): Promise<never> => {
  process.stdout.write(`${step}\n`)
  return new Promise(() => setInterval(() => undefined, 60_000))
}
const deleting = WriteQueue.prototype.cut
WriteQueue.prototype.cut = async function (...args) {
  if (step === 'announced') return waits()
  if (step === 'deleting') process.stdout.write(`${step}\n`)
  await deleting.apply(this, args)
  return waits()
}
const log = await openEmbeddedLog({ folder, schemas: CUT_SCHEMAS })
await cutAll(log, { archive: await Archive.open(openFolderStore(place, false)), place })
