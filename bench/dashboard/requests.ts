/** What open pages ask of the gateway, sent by a process without a browser. */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Asked } from './requests-client.ts'

export type { Asked } from './requests-client.ts'

/** Resolves when the streams are open. `go`: the requests follow, each at its time. */
export const startRequests = async (port: number, asked: Asked): Promise<{ go(): void; stop(): Promise<void> }> => {
  const child = fork(join(import.meta.dirname, 'requests-client.ts'), [String(port)], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const exited = once(child, 'exit')
  const failed = exited.then(([code]) => {
    throw new Error(`the client without a browser ended with exit code ${String(code)}`)
  })
  failed.catch(() => undefined)
  const message = (): Promise<unknown> => Promise.race([once(child, 'message'), failed])
  await message()
  child.send(asked)
  await message()
  return {
    go: () => void child.send('go'),
    async stop() {
      child.send('stop')
      await exited
    },
  }
}
