/**
 * A gateway with the configuration of `instar up` in its own process, on a model that fails where the prompt requests
 * it, with the prompt in the error message; prints its URL. A line on standard input stops it.
 */
import { openMemoryLog } from '@instar/log'
import { once } from 'node:events'
import { startRig } from '../gateway.ts'

const fail = (prompt: string): never => {
  throw new TypeError(`this is not what anybody expected:\n    at ${prompt}\n${prompt}`, { cause: new Error(prompt) })
}

const rig = await startRig({
  log: openMemoryLog(),
  script: (_, prompt) =>
    prompt.includes('fail at once')
      ? fail(prompt)
      : {
          text: `One two three. ${prompt.slice(-45)}`,
          before: (i) => {
            if (i === 5 && prompt.includes('fail later')) fail(prompt)
          },
        },
  ports: {
    replay: async function* (options) {
      yield { done: 1 }
      fail(JSON.stringify(options))
    },
    promote: async (branch) => fail(branch),
  },
  settings: { logLevel: undefined, bodyLimit: 50_000 },
})
process.stdout.write(`${rig.url}\n`)
await once(process.stdin, 'data')
process.stdin.destroy()
await rig.stop()
