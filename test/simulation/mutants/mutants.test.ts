/**
 * The simulation detects plausible mistakes. All mutants: `npm run simulate -- --mutants`; here some of each service.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT } from '../../../tools/tree.ts'
import { simulate } from '../world.ts'
import { kill } from './kill.ts'
import { checkPatch, load } from './load.ts'
import { namesIn } from './report.ts'
import { MUTANTS } from './table.ts'

/** Detected within a few schedules. */
const HERE = [
  'lastContinuation',
  'firstRated',
  'retryContinues',
  'feedbackTwice',
  'lastJudge',
  'anyLink',
  'dropsNotSpent',
  'rollbackGoesOn',
  'judgeOutranks',
  'closedAtOnce',
  'oldAnswer',
  'sealsFrozen',
  'staleTaken',
  'everyoneForgotten',
  'everybodyPublishes',
  'klUnbounded',
  'cutForgotten',
  'rollbackAnywhere',
  'outcomeAgain',
  'plainEndStands',
  'begunUnsaid',
  'abortedEpisodeTaken',
  'outcomePerTurn',
  'abortedKeepsScore',
]
const MOST = 60

test('each mutant applies to its source and has a unique name', () => {
  for (const mutant of MUTANTS) checkPatch(mutant)
  assert.equal(new Set(MUTANTS.map(({ name }) => name)).size, MUTANTS.length)
  assert.ok(MUTANTS.length >= 30)
})

test('a patch that does not apply is an error', async () => {
  const mutant = {
    name: 'moved',
    file: 'packages/events/src/folds/chain.ts',
    patch: [['no such text', '']],
    breaks: '',
  } as const
  assert.throws(() => checkPatch(mutant), /holds 0 times, not once: no such text/)
  await assert.rejects(load(mutant), /holds 0 times, not once: no such text/)
})

test('docs/simulation.md lists all mutants', () => {
  assert.deepEqual(
    namesIn(readFileSync(join(ROOT, 'docs/simulation.md'), 'utf8')),
    MUTANTS.map(({ name }) => name),
  )
})

test('a schedule that fails without the mutant detects nothing', async () => {
  const mutant = MUTANTS.find(({ name }) => name === 'lastContinuation')!
  const broken: typeof simulate = async (seed, off) => ({ ...(await simulate(seed, off)), problems: ['broken'] })
  await assert.rejects(kill(mutant, MOST, broken), /fails without the mutant lastContinuation, too: broken/)
})

for (const name of HERE) {
  const mutant = MUTANTS.find((one) => one.name === name)
  test(`a schedule detects the mutant: ${mutant?.breaks}`, { timeout: 120_000 }, async (t) => {
    assert.ok(mutant, `${name} is a mutant`)
    const { schedules, problem } = await kill(mutant, MOST)
    assert.ok(schedules !== null, `${MOST} schedules, and none broke`)
    t.diagnostic(`seed ${schedules}: ${problem.slice(0, 160)}`)
  })
}
