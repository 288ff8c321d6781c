/** `node one-step.ts [ENGINE]`: one update in its own process; prints the sha256 of adapter and optimizer state. */
import { createRuntime } from '@instar/policy/runtime/runtime'
import { ENGINES } from '@instar/policy/runtime/engines'
import { Trainer } from '@instar/policy/step'
import { config, exampleItems, exampleSettings, exampleWeights } from './example.ts'

const engine = ENGINES.find((name) => name === (process.argv[2] ?? 'onnx'))
if (!engine) throw new Error(`no engine ${process.argv[2]}`)
const runtime = await createRuntime({ config, weights: exampleWeights(), base: 'example', engine, threads: 1 })
const { adapter, stateSha256 } = await new Trainer(runtime, 'example').step(
  await exampleItems(runtime),
  exampleSettings,
  { adapter: null, state: null },
)
process.stdout.write(`${adapter.sha256} ${stateSha256}\n`)
await runtime.close()
