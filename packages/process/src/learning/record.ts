/** Changes of settings on the log: one SettingsChanged for each section whose values are not those recorded last. */
import { decodeReadable, encodeEvent, isReadable, type SettingsChanged } from '@instar/events'
import { persist, readUpgrades, versionsOn, type EventLog } from '@instar/log'
import { SECTION_NAMES, type SectionName } from './fields.ts'
import type { SettingValue } from './resolve.ts'

/** What was measured on a line stands beside its settings and is kept when they change. */
const CARRIED: readonly string[] = ['judge.calibration']

/** The last record of each section of a policy, to the end of the log as of the call. */
export const recordedSettings = async (
  log: EventLog,
  policy: string,
): Promise<ReadonlyMap<string, SettingsChanged>> => {
  const last = new Map<string, SettingsChanged>()
  for await (const records of log.read('upgrades'))
    for (const record of records) {
      const event = decodeReadable(record)?.event
      if (event?.type === 'SettingsChanged' && event.policy === policy) last.set(event.section, event)
    }
  return last
}

type Recording = {
  policy: string
  who: 'up' | 'scorer' | 'trainer' | 'publisher'
  /** Of whole sections, without secrets. */
  values: readonly SettingValue[]
  /** Ids of the judges of the section `judge`. */
  judges(): string[]
  /** Milliseconds since the epoch. */
  now: number
  signal: AbortSignal
}

/**
 * Returns the sections that were recorded. A section without a record is in force with the defaults of its build and the
 * size of its model, and is recorded only once one of its values comes from elsewhere. Nothing is written before all
 * readers of the log support the record, since it stops older builds.
 */
export const recordSettings = async (log: EventLog, recording: Recording): Promise<SectionName[]> => {
  const { policy, who, values, judges, now, signal } = recording
  await readUpgrades(log)
  if (!isReadable(versionsOn(log), 'SettingsChanged')) return []
  const last = await recordedSettings(log, policy)
  const changed: SettingsChanged[] = []
  for (const section of SECTION_NAMES) {
    const own = values.filter(({ name }) => name.startsWith(`${section}.`))
    const before = last.get(section)
    const settings = {
      ...Object.fromEntries(CARRIED.flatMap((name) => (before?.settings[name] ? [[name, before.settings[name]]] : []))),
      ...Object.fromEntries(own.map(({ name, value }) => [name, JSON.stringify(value)])),
    }
    const isSame = before
      ? sameEntries(before.settings, settings)
      : own.every(({ origin }) => origin.from === 'default' || origin.from === 'size')
    if (isSame || own.length === 0) continue
    const ids = section === 'judge' ? judges() : []
    changed.push({ type: 'SettingsChanged', policy, section, settings, judges: ids, who, at: now })
  }
  const records = changed.map((event) => encodeEvent(event, versionsOn(log)))
  if (records.length > 0) await persist(log, records, signal)
  return changed.map(({ section }) => section as SectionName)
}

const sameEntries = (a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean =>
  Object.keys(a).length === Object.keys(b).length && Object.entries(b).every(([name, value]) => a[name] === value)
