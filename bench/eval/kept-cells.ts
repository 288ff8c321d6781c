/** Finished cells in a file, one JSON object a line, so that a long run can be continued. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import type { Cell } from './cell.ts'

/** What makes two cells the same measurement. */
export type CellKey = Pick<Cell, 'scenario' | 'method' | 'seed' | 'sessions' | 'fresh' | 'model' | 'population'>

const keyOf = ({ scenario, method, seed, sessions, fresh, model, population }: CellKey): string =>
  JSON.stringify([scenario, method, seed, sessions, fresh, model, population])

export type KeptCells = { find(key: CellKey): Cell | undefined; keep(cell: Cell): void }

/** `file` null: nothing is kept. A last line without its end is left out, and ended before the next. */
export const openCells = (file: string | null): KeptCells => {
  const cells = new Map<string, Cell>()
  if (file !== null && existsSync(file)) {
    const text = readFileSync(file, 'utf8')
    const lines = text.split('\n')
    if (lines.pop() !== '') appendFileSync(file, '\n')
    for (const line of lines) {
      if (line === '') continue
      try {
        const cell = JSON.parse(line) as Cell
        cells.set(keyOf(cell), cell)
      } catch {
        // The line of a run that was killed while it wrote.
      }
    }
  }
  return {
    find: (key) => cells.get(keyOf(key)),
    keep(cell) {
      cells.set(keyOf(cell), cell)
      if (file !== null) appendFileSync(file, `${JSON.stringify(cell)}\n`)
    },
  }
}
