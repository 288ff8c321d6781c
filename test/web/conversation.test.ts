/** A session's turns: what followed each, and what people said of it in comments of feedback. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { assertAccessible, HOSTILE } from './browser.ts'
import { answerTo, answerWith, projected, until } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage
const turns: string[] = []
let session = ''

type Message = { role: string; content: string }

/** Adds a turn to the session that ends on what was said before, and returns its answer. */
const say = async (messages: readonly Message[]): Promise<string> => {
  const response = await fetch(`${on.url()}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': 'talk' },
    body: JSON.stringify({ model: 'policy', messages }),
  })
  assert.equal(response.status, 200)
  turns.push(response.headers.get('x-instar-turn-id')!)
  session = response.headers.get('x-instar-session-id')!
  return ((await response.json()) as { choices: [{ message: Message }] }).choices[0].message.content
}

const card = (turn: string): Locator =>
  on.page.locator('li.turn').filter({ has: on.page.locator(`a[href="#/turns/${encodeURIComponent(turn)}"]`) })
/** What its facts say of what followed; cards link to the turn that followed, too. */
const followed = async (n: number): Promise<string | null> =>
  on.page
    .locator('li.turn')
    .nth(n)
    .locator('dl.facts div')
    .filter({ hasText: 'Next state' })
    .locator('dd')
    .textContent()

before(async () => {
  on = await stage()
  const asked = { role: 'user', content: 'What is 3 plus 5?' }
  const answer = { role: 'assistant', content: await say([asked]) }
  await say([asked, answer, { role: 'user', content: 'No bold, please.' }])
  await projected(on.url(), turns[1]!)
  await until<{ turn: { next_state: string } }>(
    on.url(),
    `turns/${turns[0]}`,
    ({ turn: { next_state } }) => next_state === 'turn',
  )
})
after(() => on?.close())

test('a turn says what followed it as its next state, and that a session has ended', async () => {
  const { page } = on
  await on.open(`/sessions/${encodeURIComponent(session)}`)
  await page.locator('li.turn').nth(1).waitFor()
  await page.getByRole('link', { name: 'the user’s message below' }).waitFor()
  assert.deepEqual([await followed(0), await followed(1)], ['the user’s message below', 'none yet'])
  assert.equal(
    await page.getByRole('link', { name: 'the user’s message below' }).getAttribute('href'),
    `#/turns/${encodeURIComponent(turns[1]!)}`,
  )
  await on.post(`/v1/sessions/${session}/close`, {})
  await until<{ turn: { next_state: string } }>(
    on.url(),
    `turns/${turns[1]}`,
    ({ turn: { next_state } }) => next_state === 'none',
  )
  await page.getByRole('button', { name: 'Refresh' }).click()
  await page.getByText('none: the session ended').waitFor()
  assert.equal(await followed(0), 'the user’s message below')
  await assertAccessible(page, 'next states')
})

test('where texts are hidden, what followed is named by its turn', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  await page.route('**/v1/dashboard/session', async (route) => {
    const response = await answerTo(route)
    const found = (await response.json()) as object
    await answerWith(route, response, { ...found, may: { text: false, actions: false } })
  })
  await page.reload()
  await page.getByText('Texts are hidden').waitFor()
  assert.equal(await followed(0), `the request of turn ${turns[1]!.slice(-8)}`)
})

test('a comment of feedback is read from the log and shown with its turn, as text', async () => {
  const { page } = on
  const comment = `Say why. ${HOSTILE}`
  await page.reload()
  const first = page.locator('li.turn').first()
  await first.getByRole('button', { name: 'Comment' }).click()
  await first.getByLabel('Comment').fill(comment)
  await first.getByRole('button', { name: 'Bad answer' }).click()
  await first.getByText('Recorded').waitFor()
  const address = `turns/${turns[0]}`
  await until<{ turn: { feedback: { value: number }[] | null } }>(
    on.url(),
    address,
    ({ turn: { feedback } }) => feedback?.at(-1)?.value === -1,
  )
  await page.reload()
  const said = page.locator('.comment')
  await said.waitFor()
  assert.equal(await said.locator('.who').textContent(), 'comment with feedback −1.00')
  assert.equal(await said.locator('.text').textContent(), comment)
  assert.equal(await card(turns[0]!).first().locator('.comment').count(), 1)
  assert.deepEqual([await page.title(), await page.locator('main img, main script').count()], ['Instar', 0])
  const row = await (await fetch(`${on.url()}/v1/dashboard/${address}`)).text()
  assert.ok(!row.includes('Say why'), 'the read model has no comment')
  await assertAccessible(page, 'a comment')
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
