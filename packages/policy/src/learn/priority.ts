/** Learning yields to whoever answers people. */
import { readlinkSync } from 'node:fs'
import { getPriority, platform, setPriority } from 'node:os'

/**
 * Lowers the priority of the calling thread alone (Linux: a thread has a nice value of its own). Elsewhere
 * nothing can be lowered but the whole process, and nothing is. Returns the thread's id, or null.
 */
export function yieldToOthers(nice = 10): number | null {
  if (platform() !== 'linux') return null
  const id = Number(readlinkSync('/proc/thread-self').split('/').pop())
  if (!Number.isSafeInteger(id)) return null
  // Raising a priority needs privileges: a thread that is lower already stays there.
  setPriority(id, Math.max(getPriority(id), nice))
  return id
}
