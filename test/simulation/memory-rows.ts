/** The gateway's rows of names in memory: they survive the process, and a write is whole or not there. */
import type { NameRows } from '../../services/gateway/src/session/name-rows.ts'

export class MemoryRows implements NameRows {
  #rows = new Map<string, Uint8Array>()
  #mark: string | null = null

  async put(rows: readonly Uint8Array[], mark: string): Promise<void> {
    for (const row of rows) this.#rows.set(keyOf(row), row)
    this.#mark = mark
  }

  under(prefix: Uint8Array): Uint8Array[] {
    const begin = keyOf(prefix)
    return [...this.#rows].filter(([key]) => key.startsWith(begin)).map(([, row]) => row)
  }

  lastUnder = async (prefix: Uint8Array): Promise<Uint8Array[]> => this.under(prefix)

  async remove(from: Uint8Array, to: Uint8Array): Promise<void> {
    for (const key of this.#rows.keys()) if (key >= keyOf(from) && key < keyOf(to)) this.#rows.delete(key)
  }

  async empty(): Promise<void> {
    this.#rows.clear()
    this.#mark = null
  }

  mark = async (): Promise<string | null> => this.#mark

  async close(): Promise<void> {
    return undefined
  }
}

const keyOf = (row: Uint8Array): string => Buffer.from(row).toString('latin1')
