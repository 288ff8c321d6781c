/** Lowers the scheduling priority of the learning thread below that of serving. */
import { readlinkSync } from 'node:fs'
import { getPriority, platform, setPriority } from 'node:os'

/**
 * Sets the nice value of the calling thread to at least `nice`. Works on Linux, which has a nice value per thread; no
 * effect on other systems. Returns the id of the thread, or null.
 */
export function lowerPriority(nice = 10): number | null {
  if (platform() !== 'linux') return null
  const id = Number(readlinkSync('/proc/thread-self').split('/').pop())
  if (!Number.isSafeInteger(id)) return null
  // Raising the priority requires privileges.
  setPriority(id, Math.max(getPriority(id), nice))
  return id
}
