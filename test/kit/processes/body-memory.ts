/**
 * A gateway in a process of its own whose answers wait for the message `answer`. Sends `{ url }`, `{ waiting }` for
 * each request that waits, and after the message `measure` what is in memory after a collection and the resident set's
 * peak, in bytes.
 */
import { openMemoryLog } from '@instar/log'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { startRig, withAppend } from '../gateway.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

export type Measured = { live: number; peak: number }

const waiting: (() => void)[] = []
let blobs = 0
// The bodies are not kept: the memory of a log is not measured here.
const log = withAppend(openMemoryLog(), async (records, next) => {
  if (records[0]?.topic !== 'blobs') return next()
  return records.map(() => ({ topic: 'blobs', partition: 0, offset: (blobs += 1) }))
})
const rig = await startRig({
  log,
  script: () => ({
    text: 'Yes.',
    before: (token) =>
      token > 0
        ? undefined
        : new Promise<void>((resolve) => {
            waiting.push(resolve)
            process.send!({ waiting: waiting.length })
          }),
  }),
})
process.on('message', (message) => {
  if (message === 'answer') for (const answer of waiting.splice(0)) answer()
  else {
    // Memory of buffers is freed beside a collection, and has been when the next one begins.
    collect()
    collect()
    const { heapUsed, external } = process.memoryUsage()
    const peak = 1024 * process.resourceUsage().maxRSS
    process.send!({ live: heapUsed + external, peak } satisfies Measured)
  }
})
process.send!({ url: rig.url })
