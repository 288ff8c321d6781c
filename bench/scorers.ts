/**
 * What n scorers cost as processes on one broker, n = 1, 2 and 4: CPU ms a turn of all of them, at a rate at which a fetch brings
 * a record or two, for turns that were written as fast as they could be, which are read in full batches, and of processes without
 * turns, a second.
 */
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { encodeEvent, schemaTexts, type TurnCaptured } from '@instar/events'
import { openKafkaLog, setupKafka } from '@instar/log/kafka/index'
import { captured, type Said } from '../test/kit/scored-history.ts'
import { killAll } from '../test/kit/stack/guarded.ts'
import { FULL_JVM, startKafka } from '../test/kit/stack/kafka.ts'
import { temporaryFolder } from '../test/kit/stack.ts'
import type { FleetServiceConfig } from './fleet/service.ts'
import { machine, median, rounded } from './machine.ts'
import { startProgram, type ServiceProcess } from './services/process.ts'

/** `ratio`: to one scorer. `least`, `most`: CPU ms a turn of a single process. */
export type Row = { what: string; scorers: number; cpuMs: number; least: number; most: number; ratio: number }
export type Report = { name: string; machine: string; rows: Row[] }
export type ScorersOptions = { quick?: boolean; logLine?: (line: string) => void; rounds?: number }

const COUNTS = [1, 2, 4] as const
const PER_SECOND = 50
const TURNS = 4
const TOKENS = 49
/** A member joins, and learns what is assigned to it, within a heartbeat or two. */
const JOIN_MS = 6_000
const IDLE_MS = 8_000

/** A conversation; each turn but the last has a next state. */
const conversation = (name: string): TurnCaptured[] => {
  const said: Said[] = []
  return Array.from({ length: TURNS }, (_, i) => {
    said.push({ role: 'user', content: i === 0 ? `What is ${name}?` : 'Thank you, that is right. And the next one?' })
    const answer = `The answer to question ${i} of ${name} is ${name.length + i}.`
    const turn = captured({ session: name, messages: [...said], answer, at: Date.now(), name: `t${i}` })
    said.push({ role: 'assistant', content: answer })
    const ids = Array.from({ length: TOKENS }, (__, token) => 100 + token)
    return { ...turn, ids, logprobs: ids.map((id) => -1 / id) }
  })
}

const run = async (
  brokers: string[],
  scratch: string,
  scorers: number,
  { conversations, rounds }: { conversations: number; rounds: number },
  logLine: (line: string) => void,
): Promise<Record<string, number[][]>> => {
  const prefix = `scorers-${scorers}.`
  await setupKafka({ brokers, prefix })
  const schemas = schemaTexts()
  const registry = new Map(Object.keys(schemas).map((name, i) => [name, i + 1]))
  const log = await openKafkaLog({ brokers, prefix, clientId: 'bench', schemas, registry })
  let [written, scored] = [0, 0]
  const watcher = await log.subscribe({
    topics: ['scores'],
    group: 'bench',
    from: 'start',
    handle: (records) => void (scored += records.length),
  })
  const processes: ServiceProcess[] = []
  try {
    const config = { brokers, prefix, model: '', clock: { realStart: 0, simulatedStart: 0, speed: 1 } }
    for (let i = 0; i < scorers; i += 1) {
      const own: FleetServiceConfig = { ...config, scratch: join(scratch, `${scorers}-${i}`) }
      processes.push(await startProgram(join(import.meta.dirname, 'fleet/service.ts'), 'scorer', own))
    }
    await pause(JOIN_MS)
    /** Conversations in waves of as many as have a turn in a second; `paced`: at PER_SECOND turns. */
    const say = async (name: string, paced: boolean): Promise<number> => {
      const all = Array.from({ length: conversations }, (_, i) => conversation(`${name}${i}`))
      const begun = scored
      for (let from = 0; from < conversations; from += PER_SECOND)
        for (let turn = 0; turn < TURNS; turn += 1)
          for (const of of all.slice(from, from + PER_SECOND)) {
            const appended = log.append([encodeEvent(of[turn]!)])
            if (!paced) continue
            await appended
            await pause(1000 / PER_SECOND)
          }
      written += conversations * TURNS
      while (scored - begun < conversations * (TURNS - 1)) await pause(50)
      return conversations * TURNS
    }
    const cpuMs = async (): Promise<number[]> =>
      Promise.all(processes.map(async (one) => 1000 * (await one.usage()).cpuSeconds))
    const found: Record<string, number[][]> = {}
    // Each process warms up on as many own turns, since optimised code is a large part of the cost of a turn.
    for (let i = 0; i < scorers; i += 1) await say(`warm${i} `, false)
    const idle = await cpuMs()
    await pause(IDLE_MS)
    found['idle, ms a second'] = [(await cpuMs()).map((ms, i) => (1000 * (ms - idle[i]!)) / IDLE_MS)]
    for (let round = 0; round < rounds; round += 1)
      for (const [what, paced] of [
        [`${PER_SECOND} turns/s`, true],
        ['full batches', false],
      ] as const) {
        const before = await cpuMs()
        const turns = await say(`${what}${round}`, paced)
        const after = await cpuMs()
        const each = after.map((ms, i) => (ms - before[i]!) / turns)
        found[what] = [...(found[what] ?? []), each]
        logLine(`  ${scorers} scorers, ${what}: ${each.map((ms) => ms.toFixed(3)).join(', ')} ms a turn`)
      }
    const twice = scored - (written * (TURNS - 1)) / TURNS
    if (twice > 0) logLine(`  ${twice} scores more than turns`)
    return found
  } finally {
    for (const one of processes) await one.stop()
    await watcher.stop()
    await log.close()
  }
}

export const bench = async ({
  quick = false,
  logLine = () => undefined,
  rounds = quick ? 1 : 3,
}: ScorersOptions = {}): Promise<Report> => {
  const folder = await temporaryFolder()
  try {
    const { brokers } = await startKafka({ folder: join(folder.path, 'kafka'), jvm: FULL_JVM })
    const rows: Row[] = []
    for (const scorers of COUNTS) {
      const found = await run(brokers, folder.path, scorers, { conversations: quick ? 200 : 500, rounds }, logLine)
      for (const [what, each] of Object.entries(found)) {
        const sums = each.map((of) => of.reduce((sum, ms) => sum + ms, 0))
        const cpuMs = median(sums)
        const alone = rows.find((row) => row.what === what)?.cpuMs ?? cpuMs
        const of = each.flat()
        rows.push({
          what,
          scorers,
          cpuMs: rounded(cpuMs),
          least: rounded(Math.min(...of)),
          most: rounded(Math.max(...of)),
          ratio: rounded(cpuMs / alone),
        })
      }
    }
    return { name: 'scorers', machine: machine(), rows: rows.toSorted((a, b) => (a.what < b.what ? -1 : 1)) }
  } finally {
    await killAll()
    await folder.remove()
  }
}
