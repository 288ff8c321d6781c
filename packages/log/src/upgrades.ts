/**
 * Which versions of records all readers of a log have. The topic `upgrades` says it, for good: of each type the highest
 * version that was announced. What is newer is not written, so that processes of two builds may work side by side.
 */
import { decodeReadable, encodeEvent, NEWEST, RELEASED, type ReadersUpgraded, type Versions } from '@instar/events'
import { persist } from './persist.ts'
import type { EventLog } from './port.ts'

const held = new WeakMap<EventLog, Map<string, number>>()

const heldOf = (log: EventLog): Map<string, number> => {
  let versions = held.get(log)
  if (!versions) held.set(log, (versions = new Map(log.sole ? NEWEST : RELEASED)))
  return versions
}

/** What may be written on this log, as far as this process has read `upgrades`; it grows while it is followed. */
export const versionsOn = (log: EventLog): Versions => heldOf(log)

const raise = (versions: Map<string, number>, announced: ReadersUpgraded): void => {
  for (const [name, version] of Object.entries(announced.versions))
    if (NEWEST.has(name)) versions.set(name, Math.max(version, versions.get(name) ?? 0))
}

/** A record of `upgrades` was read. */
export const heardUpgrade = (log: EventLog, announced: ReadersUpgraded): void => raise(heldOf(log), announced)

/**
 * The record versions announced on the log as of the call; also stores them for `versionsOn`. For processes that do
 * not follow the log.
 */
export const readUpgrades = async (log: EventLog): Promise<Versions> => {
  const announced = new Map(RELEASED)
  for await (const records of log.read('upgrades')) {
    for (const record of records) {
      const event = decodeReadable(record)?.event
      if (event?.type !== 'ReadersUpgraded') continue
      raise(announced, event)
      heardUpgrade(log, event)
    }
  }
  return announced
}

/**
 * Announces that all readers of the log support this build's versions. Writes nothing and returns null when they are
 * announced already.
 */
export const announceUpgrade = async (
  log: EventLog,
  who: string,
  now: number,
  signal: AbortSignal,
): Promise<Record<string, number> | null> => {
  const announced = await readUpgrades(log)
  const news = Object.fromEntries([...NEWEST].filter(([name, version]) => version > (announced.get(name) ?? 0)))
  if (Object.keys(news).length === 0) return null
  const event: ReadersUpgraded = { type: 'ReadersUpgraded', versions: news, who, at: now }
  await persist(log, [encodeEvent(event, versionsOn(log))], signal)
  heardUpgrade(log, event)
  return news
}
