/** Runs mutants until a schedule detects them. */
import { load } from './load.ts'
import type { Mutant } from './table.ts'

/** `schedules`: how many it took; null: none of `most` failed. */
export type Killed = { mutant: Mutant; schedules: number | null; problem: string }

/** Schedules from seed 1 on. */
export const kill = async (mutant: Mutant, most: number): Promise<Killed> => {
  const simulate = await load(mutant)
  for (let seed = 1; seed <= most; seed += 1) {
    const { problems } = await simulate(seed)
    if (problems[0] !== undefined) return { mutant, schedules: seed, problem: problems[0] }
  }
  return { mutant, schedules: null, problem: '' }
}
