/**
 * The second thread of remote-appender.test.ts: follows `turns`, appends 50 records on request, and answers with all
 * that it read.
 */
import { openJoinedLog } from '@instar/log'
import { once } from 'node:events'
import { parentPort, workerData, type MessagePort } from 'node:worker_threads'
import { note, range, SCHEMAS, textOf } from '../harness.ts'

const { folder, port } = workerData as { folder: string; port: MessagePort }
const log = openJoinedLog(folder, SCHEMAS, port)
const read: string[] = []
const subscription = await log.subscribe({
  topics: ['turns'],
  group: 'g',
  from: 'start',
  handle: (records) => {
    read.push(...records.map(textOf))
  },
})
parentPort!.postMessage('ready')
await once(parentPort!, 'message')
for (const i of range(50)) await log.append([note('second', `second ${i}`)])
await subscription.caughtUp()
parentPort!.postMessage(read)
await log.close()
