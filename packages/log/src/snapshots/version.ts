/** The version of the folds in a snapshot: a number with migrations, which test/snapshots/versions.test.ts holds to golden snapshots. */
import type { FoldFile } from './file.ts'

/** Changes the entries of a file in place, in a transaction with the new version. If it throws, the log is read again. */
export type Migration = (file: FoldFile) => void

/**
 * `number`: counted up by each change of the stored state or of its fold. `migrations`: by the version from which they lead
 * to the next one; a snapshot of a version without a way to `number` is not used. `digests`: of the sources of builds that had
 * no number yet and stored such a digest, with the number of the state that they wrote.
 */
export type StateVersion = {
  number: number
  migrations: Readonly<Record<number, Migration>>
  digests?: Readonly<Record<string, number>>
}

/** As the file has it. */
export const versionText = ({ number }: StateVersion): string => `v${number}`

/** The migrations from the version of a file to the present one, in order; null: there is no way. */
export const migrationsFrom = (
  found: string,
  { number, migrations, digests = {} }: StateVersion,
): Migration[] | null => {
  const from = digests[found] ?? Number(/^v([1-9]\d*)$/.exec(found)?.[1] ?? Infinity)
  if (from > number) return null
  const steps: Migration[] = []
  for (let at = from; at < number; at += 1) {
    const step = migrations[at]
    if (!step) return null
    steps.push(step)
  }
  return steps
}
