import type { PartitionAssignment } from './port.ts'

/** The assignment of a log with a single writer: all partitions until `leave`. */
export const soleAssignment = (): PartitionAssignment => {
  let left = false
  return {
    owns: () => !left,
    async leave() {
      left = true
    },
  }
}
