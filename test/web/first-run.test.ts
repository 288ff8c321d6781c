/** The first page where requests need an API key: who may create one there, what others are told, an ended session. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessible } from './browser.ts'
import { cli } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage
let reader: string

before(async () => {
  on = await stage()
  const add = async (name: string, scopes: string): Promise<string> =>
    (JSON.parse(await cli(on.env(), 'keys', 'add', name, '--scopes', scopes, '--json')) as { token: string }).token
  reader = await add('reader', 'read')
  // The gateway reads the file within a second.
  while ((await fetch(`${on.url()}/v1/dashboard/now`)).status !== 401);
})
after(() => on?.close())

test('a session with the scope admin creates a key, which is shown once and works', async () => {
  const { page } = on
  await on.signIn()
  await page.getByText('No conversation yet').waitFor()
  const snippet = page.locator('pre').first()
  assert.match((await snippet.textContent()) ?? '', /authorization: Bearer YOUR_KEY/)
  await assertAccessible(page, 'first run with keys')
  await page.getByRole('button', { name: 'Create a key for this' }).click()
  await page.getByText('It is shown only now').waitFor()
  const text = (await snippet.textContent()) ?? ''
  const token = /Bearer (sk-instar-[\w-]+)'/.exec(text)?.[1] ?? ''
  assert.ok(text.includes(`${on.url()}/v1/chat/completions`) && token !== '', text)
  const models = await fetch(`${on.url()}/v1/models`, { headers: { authorization: `Bearer ${token}` } })
  assert.equal(models.status, 200)
  await page.reload()
  await page.getByRole('button', { name: 'Create a key for this' }).waitFor()
  assert.ok(!(await page.content()).includes(token), 'no later page shows it')
})

test('without the scope the page says how to get a key, and after the session has ended how to sign in', async () => {
  const { page } = on
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('API key').fill(reader)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('npx instar keys add NAME').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Create a key for this' }).count(), 0)
  await on.open('/versions')
  const freeze = page.getByRole('button', { name: 'Freeze learning' })
  await freeze.waitFor()
  assert.deepEqual([await freeze.isDisabled(), await freeze.getAttribute('title')], [true, 'Needs the scope admin'])
  await on.context.clearCookies()
  await on.open('/learning')
  await page.getByText('The session has ended').waitFor()
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
