/** The process of a client: `child.ts <module that exports open> …`. Ends when its parent lets go. */
import { quantile } from '../machine.ts'
import { KEYS, type Client, type Done, type Open, type Place, type Work } from './client.ts'

const produce = async (client: Client, records: number, callers: number, perCall: number): Promise<number[]> => {
  const took: number[] = []
  let left = records
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      for (let call = 0; left > 0; call++) {
        left -= perCall
        const from = (caller * 7 + call * 13) % KEYS.length
        const keys = Array.from({ length: perCall }, (_, i) => KEYS[(from + i) % KEYS.length]!)
        const begin = performance.now()
        await client.produce(keys)
        took.push(performance.now() - begin)
      }
    }),
  )
  return took
}

const work = async (client: Client, job: Work): Promise<Done> => {
  const cpu = process.cpuUsage()
  const begin = performance.now()
  const took =
    job.task === 'produce'
      ? await produce(client, job.records, job.callers, job.perCall)
      : await client.consume(job.records).then(() => [])
  const seconds = (performance.now() - begin) / 1000
  const { user, system } = process.cpuUsage(cpu)
  return { seconds, cpuSeconds: (user + system) / 1e6, p50: quantile(took, 0.5), p99: quantile(took, 0.99) }
}

const [, , module, ...words] = process.argv
const { open } = (await import(module!)) as { open: Open }
process.on('message', ({ place, job }: { place: Place; job: Work }) => {
  void (async () => {
    const client = await open(place, words)
    const done = await work(client, job)
    await client.close()
    process.send!(done)
  })()
})
