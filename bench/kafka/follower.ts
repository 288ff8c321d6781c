/** A process that follows `turns` as a gateway does. Each message is answered with its CPU time since the one before it. */
import { openKafkaLog } from '@instar/log/kafka/index'

const [brokers, prefix] = process.argv.slice(2) as [string, string]
const log = await openKafkaLog({
  brokers: brokers.split(','),
  prefix,
  clientId: 'follower',
  registry: new Map(),
  schemas: {},
})
let records = 0
const subscription = await log.subscribe({
  topics: ['turns'],
  group: 'bench',
  from: 'start',
  handle: (batch) => void (records += batch.length),
})
let cpu = process.cpuUsage()
process.on('message', () => {
  void subscription.caughtUp().then(() => {
    const { user, system } = process.cpuUsage(cpu)
    cpu = process.cpuUsage()
    process.send!({ cpuMs: (user + system) / 1000, records })
    records = 0
  })
})
process.on('disconnect', () => process.exit(0))
process.send!('ready')
