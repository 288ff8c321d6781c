/**
 * SQLite alone, with the embedded log's pragmas, one plain table and one transaction per group of records: on the
 * calling thread, or on a worker thread, so that a flush does not block the event loop.
 */
import { WRITE_PRAGMAS } from '@instar/log/embedded/file'
import { once } from 'node:events'
import { DatabaseSync } from 'node:sqlite'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'

export const openRaw = (file: string) => {
  const db = new DatabaseSync(file)
  db.exec(WRITE_PRAGMAS)
  db.exec(
    'CREATE TABLE records (id INTEGER PRIMARY KEY, partition INTEGER, timestamp INTEGER, schema INTEGER, key TEXT, payload BLOB) STRICT',
  )
  const insert = db.prepare('INSERT INTO records (partition, timestamp, schema, key, payload) VALUES (?, ?, ?, ?, ?)')
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  return {
    write(keys: readonly string[], payloadOf: (i: number) => Uint8Array): void {
      begin.run()
      keys.forEach((key, i) => insert.run(1, Date.now(), 1, key, payloadOf(i)))
      commit.run()
    },
    close: () => {
      db.close()
    },
  }
}

/** `payloads`: concatenated, of equal lengths. No keys: ends the thread. */
type Group = { keys: readonly string[]; payloads: Uint8Array<ArrayBuffer> }

/** `write` resolves when the group is durable; call it for one group at a time. */
export const openRawThread = async (file: string) => {
  const worker = new Worker(new URL(import.meta.url), { workerData: { file } })
  await once(worker, 'message')
  const send = ({ keys, payloads }: Group): void => {
    worker.postMessage({ keys, payloads }, [payloads.buffer])
  }
  return {
    write(keys: readonly string[], payload: Uint8Array): Promise<void> {
      return new Promise((resolve) => {
        worker.once('message', () => {
          resolve()
        })
        const payloads = new Uint8Array(keys.length * payload.length)
        for (let at = 0; at < payloads.length; at += payload.length) payloads.set(payload, at)
        send({ keys, payloads })
      })
    },
    async close(): Promise<void> {
      send({ keys: [], payloads: new Uint8Array() })
      await once(worker, 'exit')
    },
  }
}

if (!isMainThread && parentPort !== null) {
  const port = parentPort
  const raw = openRaw((workerData as { file: string }).file)
  port.on('message', ({ keys, payloads }: Group) => {
    if (keys.length > 0) {
      const bytes = payloads.length / keys.length
      raw.write(keys, (i) => payloads.subarray(i * bytes, (i + 1) * bytes))
      port.postMessage(null)
    } else {
      raw.close()
      port.close()
    }
  })
  port.postMessage(null)
}
