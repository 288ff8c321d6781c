/**
 * `npm run nightly:vllm`: a real vLLM (CPU) behind the gateway. Needs Linux, Python 3.11 to 3.13, 12 GB of disk and 6
 * GB of memory; the first run fetches 2.6 GB. Prints the figures; exit code 0 if all tests pass. `-- forced`: the part
 * with this word in its name.
 */
import { describe } from 'node:test'
import { MODEL, trials } from '../trials.ts'
import { forced } from './forced.ts'
import { loop } from './loop.ts'
import { startVllm } from './server.ts'
import { smolLM2 } from './smollm2.ts'

for (const [name, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(name, () => process.exit(128 + number))

const [, , only = ''] = process.argv
const part = (name: string, body: () => void | Promise<void>): void => {
  if (name.includes(only)) void describe(name, body)
}

part('the model that ships', () => trials(() => startVllm(MODEL)))
part('forced answers', () => forced())
part('the whole loop', loop)
part('SmolLM2-135M-Instruct', async () => {
  const model = await smolLM2()
  trials(() => startVllm(model), model, 0.4)
})
