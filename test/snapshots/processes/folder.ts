/**
 * Folds a log into a snapshot until it is killed or has read everything: `folder.ts SERVICE LOG SNAPSHOTS`. Prints
 * `saved` after each snapshot.
 */
import { followEvents, openEmbeddedLog, openSnapshots } from '@instar/log'
import { SERVICES } from '../services.ts'

const [name, folder, place] = process.argv.slice(2) as [string, string, string]
const service = SERVICES.find((one) => one.name === name)!
const log = await openEmbeddedLog({ folder, readOnly: true })
const snapshot = openSnapshots(place, { records: 25, ms: Infinity, cacheWeight: 20 }).of(name, {
  number: 1,
  migrations: {},
})
const fold = service.stored(snapshot)
const follower = await followEvents(log, {
  name,
  topics: service.topics,
  from: await snapshot.open(log),
  onEvent(logged) {
    fold.evolve(logged)
    return snapshot.after(logged)?.then(() => void process.stdout.write('saved\n'))
  },
})
await follower.caughtUp()
process.stdout.write('through\n')
