/** The process of a client: `child.ts MODULE …`, a module that exports `open`. Ends when its parent disconnects. */
import { quantile } from '../machine.ts'
import { KEYS, type Client, type Open, type Task, type TaskResult, type TopicAddress } from './client.ts'

/** Resolves with the time of each call, ms. */
const produce = async (client: Client, records: number, callers: number, perCall: number): Promise<number[]> => {
  const times: number[] = []
  let left = records
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      for (let call = 0; left > 0; call++) {
        left -= perCall
        const firstKey = (caller * 7 + call * 13) % KEYS.length
        const keys = Array.from({ length: perCall }, (_, i) => KEYS[(firstKey + i) % KEYS.length]!)
        const startedAt = performance.now()
        await client.produce(keys)
        times.push(performance.now() - startedAt)
      }
    }),
  )
  return times
}

const run = async (client: Client, task: Task): Promise<TaskResult> => {
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const times =
    task.task === 'produce'
      ? await produce(client, task.records, task.callers, task.perCall)
      : await client.consume(task.records).then(() => [])
  const seconds = (performance.now() - startedAt) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return { seconds, cpuSeconds: (user + system) / 1e6, p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
}

const [, , module, ...args] = process.argv
const { open } = (await import(module!)) as { open: Open }
process.on('message', ({ address, task }: { address: TopicAddress; task: Task }) => {
  void (async () => {
    const client = await open(address, args)
    const result = await run(client, task)
    await client.close()
    process.send!(result)
  })()
})
