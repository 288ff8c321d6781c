/** Writes a value of the table `meta`, in the place of the one before. */
import type { DatabaseSync } from 'node:sqlite'

export const metaWriter = (db: DatabaseSync): ((name: string, value: string) => void) => {
  const write = db.prepare('INSERT INTO meta VALUES (?, ?) ON CONFLICT DO UPDATE SET value = excluded.value')
  return (name, value) => void write.run(name, value)
}
