/** The real cores under random schedules with faults, and with each rule switched off in turn. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RULE_NAMES, RULES } from './rules.ts'
import { simulate } from './world.ts'

const SCHEDULES = 800
const PARTS = 4
/** Schedules within which a missing rule must be detected; it takes one to ten. */
const WITHOUT = 200

const reproduce = (seed: number): string => `npm run simulate -- --schedules 1 --seed ${seed}`

for (let part = 0; part < PARTS; part += 1) {
  const first = 1 + (part * SCHEDULES) / PARTS
  test(
    `schedules from seed ${first}: all readers agree, and each turn counts once`,
    { timeout: 300_000 },
    async (t) => {
      let [records, versions, rejected] = [0, 0, 0]
      for (let seed = first; seed < first + SCHEDULES / PARTS; seed += 1) {
        const result = await simulate(seed)
        assert.deepEqual(result.problems, [], reproduce(seed))
        records += result.records
        versions += result.versions
        rejected += result.rejected
      }
      t.diagnostic(`${records} records, ${versions} versions, ${rejected} rejected`)
      assert.ok(versions > 150 && rejected > 50, 'the schedules get somewhere')
    },
  )
}

for (const rule of RULE_NAMES) {
  test(`without ${rule} some schedule fails. ${RULES[rule]}`, { timeout: 120_000 }, async (t) => {
    for (let seed = 1; seed <= WITHOUT; seed += 1) {
      const { problems } = await simulate(seed, rule)
      if (problems.length === 0) continue
      t.diagnostic(`seed ${seed}: ${problems[0]?.slice(0, 160)}`)
      return
    }
    assert.fail(`${WITHOUT} schedules without ${rule} and none broke: what is it good for?`)
  })
}

test('a seed gives the same schedule twice', async () => {
  assert.deepEqual(await simulate(7), await simulate(7))
})
