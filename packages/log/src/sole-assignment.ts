import type { PartitionAssignment } from './port.ts'

/** Of a log that only one process writes: everything is its own. */
export const soleAssignment = (): PartitionAssignment => {
  let left = false
  return {
    owns: () => !left,
    async leave() {
      left = true
    },
  }
}
