/**
 * The record versions that all readers of a log support: for each type the highest version announced on the topic
 * `upgrades`. Newer versions are not written, so that processes of two builds can use one log.
 */
import { decodeReadable, encodeEvent, NEWEST, RELEASED, type ReadersUpgraded, type Versions } from '@instar/events'
import { persist } from './persist.ts'
import type { EventLog } from './port.ts'

const versionsByLog = new WeakMap<EventLog, Map<string, number>>()

const mutableVersionsOn = (log: EventLog): Map<string, number> => {
  let versions = versionsByLog.get(log)
  if (!versions) versionsByLog.set(log, (versions = new Map(log.sole ? NEWEST : RELEASED)))
  return versions
}

/** The versions that may be written on this log, as far as this process has read `upgrades`. The map is live. */
export const versionsOn = (log: EventLog): Versions => mutableVersionsOn(log)

const raise = (versions: Map<string, number>, announced: ReadersUpgraded): void => {
  for (const [name, version] of Object.entries(announced.versions))
    if (NEWEST.has(name)) versions.set(name, Math.max(version, versions.get(name) ?? 0))
}

/** Applies a record of `upgrades` to `versionsOn(log)`. */
export const applyUpgrade = (log: EventLog, announced: ReadersUpgraded): void =>
  raise(mutableVersionsOn(log), announced)

/**
 * Reads the announced versions to the end of the log as of the call and applies them to `versionsOn(log)`. For
 * processes that do not follow the log.
 */
export const readUpgrades = async (log: EventLog): Promise<Versions> => {
  const announced = new Map(RELEASED)
  for await (const records of log.read('upgrades')) {
    for (const record of records) {
      const event = decodeReadable(record)?.event
      if (event?.type !== 'ReadersUpgraded') continue
      raise(announced, event)
      applyUpgrade(log, event)
    }
  }
  return announced
}

/**
 * Announces that all readers of the log support this build's versions. Returns the versions that were added; null,
 * without a write, if all are announced. `who`: the announcer; `now`: milliseconds since 1970.
 */
export const announceUpgrade = async (
  log: EventLog,
  who: string,
  now: number,
  signal: AbortSignal,
): Promise<Record<string, number> | null> => {
  const announced = await readUpgrades(log)
  const added = Object.fromEntries([...NEWEST].filter(([name, version]) => version > (announced.get(name) ?? 0)))
  if (Object.keys(added).length === 0) return null
  const event: ReadersUpgraded = { type: 'ReadersUpgraded', versions: added, who, at: now }
  await persist(log, [encodeEvent(event, versionsOn(log))], signal)
  applyUpgrade(log, event)
  return added
}
