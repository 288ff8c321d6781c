/** Runs mutants until a schedule detects them. */
import { simulate as unchanged } from '../world.ts'
import { load } from './load.ts'
import type { Mutant } from './table.ts'

/** `schedules`: how many it took; null: none of `most` failed. */
export type Killed = { mutant: Mutant; schedules: number | null; problem: string }

/** Schedules from seed 1 on. Throws where the schedule that fails also fails without the mutant: it detects nothing. */
export const kill = async (mutant: Mutant, most: number, control: typeof unchanged = unchanged): Promise<Killed> => {
  const simulate = await load(mutant)
  for (let seed = 1; seed <= most; seed += 1) {
    const { problems } = await simulate(seed)
    if (problems[0] === undefined) continue
    const [broken] = (await control(seed)).problems
    if (broken !== undefined)
      throw new Error(`schedule ${seed} fails without the mutant ${mutant.name}, too: ${broken}`)
    return { mutant, schedules: seed, problem: problems[0] }
  }
  return { mutant, schedules: null, problem: '' }
}
