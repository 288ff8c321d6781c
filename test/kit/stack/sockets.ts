/** Connections as the system lists them; Linux only, as this folder. */
import { readFile } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

const CLOSE_WAIT = '08'

/** Whether a client of the port has disconnected and the server has not noticed yet. */
const goneUnseen = async (port: number): Promise<boolean> => {
  const tables = await Promise.all(['/proc/net/tcp', '/proc/net/tcp6'].map((file) => readFile(file, 'utf8')))
  const ours = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return tables
    .flatMap((table) => table.split('\n').slice(1))
    .some((line) => {
      const [, local, , state] = line.trim().split(/\s+/)
      return state === CLOSE_WAIT && local?.endsWith(ours) === true
    })
}

/**
 * Resolves when the brokers have processed all that ended clients sent: a request of a killed process is still executed
 * before its connection is closed.
 */
export const allSeen = async (brokers: readonly string[]): Promise<void> => {
  for (const broker of brokers) {
    while (await goneUnseen(Number(broker.split(':')[1]))) await delay(5)
  }
}
