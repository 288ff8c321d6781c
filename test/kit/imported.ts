/** Files of `instar import` and the log after it. */
import {
  decodeRecord,
  foldTurns,
  initialTurns,
  type Logged,
  type TurnCaptured,
  type TurnsEvent,
  type TurnState,
} from '@instar/events'
import { createTurnReader, openEmbeddedLog, type EmbeddedLog, type TurnReader } from '@instar/log'
import { equal, ok } from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { ImportReport } from '../../cli/src/importing/report.ts'
import { folder, instar } from './cli.ts'

/** A file of JSON lines; a string is a line as it is. */
export const jsonLines = (lines: readonly unknown[]): string => {
  const path = join(folder(), 'lines.jsonl')
  writeFileSync(path, lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''))
  return path
}

/** Runs `instar import --json`. */
export const importFile = async (
  data: string,
  path: string,
  ...options: string[]
): Promise<ImportReport & { code: number }> => {
  const { code, json, err } = await instar(['import', path, '--json', ...options], { INSTAR_DATA: data })
  ok(json !== undefined && !('error' in (json as object)), err)
  return { code, ...(json as ImportReport) }
}

export type LogContents = {
  log: EmbeddedLog
  events: TurnsEvent[]
  turns: TurnState[]
  reader: TurnReader
  of(turn: string): TurnCaptured
  records: number
}

/** Reads the turns of a log, all records of which must count. */
export const readLog = async (t: TestContext, data: string): Promise<LogContents> => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), readOnly: true })
  t.after(() => log.close())
  const state = initialTurns()
  const events: TurnsEvent[] = []
  for await (const batch of log.read('turns')) {
    for (const record of batch) {
      const logged = decodeRecord(record) as Logged<TurnsEvent>
      equal(foldTurns(state, logged).counted, true, `${logged.event.type} counts`)
      events.push(logged.event)
    }
  }
  return {
    log,
    events,
    turns: [...state.turns.values()],
    reader: createTurnReader(log, (turn) => state.turns.get(turn)),
    records: events.length,
    of: (turn) => events.find((event): event is TurnCaptured => event.type === 'TurnCaptured' && event.turn === turn)!,
  }
}
