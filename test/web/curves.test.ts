/** Learning: the gate's figures over time, with the lineage's events on them, and the rewards of people and keys. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { number, reward } from '../../packages/dashboard/web/format.ts'
import type { Learning } from '../../packages/dashboard/web/rows.ts'
import { assertAccessible } from './browser.ts'
import { converse, published, until } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage
let learning: Learning

const command = async (name: string, body: object): Promise<void> => {
  const response = await fetch(`${on.url()}/admin/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await on.adminToken()}` },
    body: JSON.stringify({ why: 'A test', ...body }),
  })
  assert.ok(response.ok, `${name} ${response.status}`)
}

const chart = (title: string): Locator =>
  on.page.locator('figure.chart').filter({ has: on.page.locator('strong', { hasText: new RegExp(`^${title}$`) }) })

/** All that is read out of a chart, from its first value to its last. */
const heard = async (title: string): Promise<string[]> => {
  const of = chart(title)
  await of.locator('svg[tabindex="0"]').focus()
  await on.page.keyboard.press('Home')
  const all: string[] = []
  for (;;) {
    const said = (await of.locator('.said').textContent())!.trim()
    if (said === all.at(-1)) return all
    all.push(said)
    await on.page.keyboard.press('ArrowRight')
  }
}

before(async () => {
  on = await stage()
  await converse(on.post, 'ann')
  await published(on.url())
  await command('freeze', {})
  await command('rollback', { version: 0 })
  await until<Learning>(on.url(), 'learning', (found) => {
    learning = found
    return found.moves.some(({ to_version: to, why }) => to === 0 && why === 'A test') && found.times.length > 0
  })
})
after(() => on?.close())

test('the gate’s figures are shown over time as those of the version that served, with the events on them', async () => {
  await on.open('/learning')
  await chart('Probes over time').waitFor()
  const first = learning.versions.find(({ version }) => version === 1)!
  for (const [title, value] of [
    ['Probes over time', `content ${number(first.content, 3)}`],
    ['Divergence over time', `to the parent ${number(first.kl_parent, 3)}, to the base ${number(first.kl_base, 3)}`],
    ['Length over time', `samples ${number(first.sampled_length, 1)}`],
    ['Entropy over time', `entropy ${number(first.entropy, 2)}`],
    ['Gradient norm over time', `norm ${number(first.grad_norm, 2)}`],
  ] as const) {
    const said = await heard(title)
    assert.ok(
      said.some((one) => one.includes(value)),
      `${title}: ${value} in ${said.join('\n')}`,
    )
    assert.match(said.join('\n'), /moved the head from version 1 to 0: A test/, title)
    assert.match((await chart(title).locator('.legend').textContent())!, /head moved by a person.*learning frozen/)
  }
})

test('rewards of people and keys are curves, of which up to five are chosen', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  assert.deepEqual([learning.subject_curves.length, learning.key_curves.length], [3, 1])
  const people = await heard('Reward of people')
  const { name, points } = learning.subject_curves[0]!
  assert.ok(people[0]!.includes(`${name!.slice(-8)} ${reward(points[0]![1])}`), people[0])
  assert.ok((await heard('Reward of API keys'))[0]!.includes('without a key'))
  await page.route('**/v1/dashboard/learning', async (route) => {
    const at = Date.parse(learning.times[0]!.at)
    const subject_curves = Array.from({ length: 7 }, (_, i) => ({
      name: `person ${i}`,
      points: [
        [at, i / 10, 1],
        [at + 10_000, -i / 10, 1],
      ],
    }))
    await route.fulfill({ json: { ...learning, subject_curves } })
  })
  await page.reload()
  const choice = page.getByRole('group', { name: 'Curves of Reward of people' })
  await choice.waitFor()
  const names = (): Promise<string[]> => chart('Reward of people').locator('.legend > span').allTextContents()
  const shown = async (): Promise<string[]> => (await names()).filter((one) => one.startsWith('person'))
  assert.deepEqual(await shown(), ['person 0', 'person 1', 'person 2'])
  await choice.getByLabel('person 5').check()
  await choice.getByLabel('person 6').check()
  assert.ok(await choice.getByLabel('person 3').isDisabled(), 'five are chosen')
  await choice.getByLabel('person 0').uncheck()
  assert.deepEqual(await shown(), ['person 1', 'person 2', 'person 5', 'person 6'])
  assert.ok(await choice.getByLabel('person 3').isEnabled())
  const [begin] = await heard('Reward of people')
  for (const i of [1, 2, 5, 6]) assert.ok(begin!.includes(`person ${i} ${reward(i / 10)}`), begin)
  await assertAccessible(page, 'curves')
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
