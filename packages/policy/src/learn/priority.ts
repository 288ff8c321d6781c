/** Lowers the priority of learning, so that serving goes first. */
import { readlinkSync } from 'node:fs'
import { getPriority, platform, setPriority } from 'node:os'

/**
 * Lowers the priority of the calling thread (Linux has a nice value per thread). No effect elsewhere, where only the
 * whole process has one. Returns the thread's id, or null.
 */
export function yieldToOthers(nice = 10): number | null {
  if (platform() !== 'linux') return null
  const id = Number(readlinkSync('/proc/thread-self').split('/').pop())
  if (!Number.isSafeInteger(id)) return null
  // Raising a priority needs privileges, so a lower one is kept.
  setPriority(id, Math.max(getPriority(id), nice))
  return id
}
