/** What others wrote is text on every page; keys without a scope, sessions that end, and a gateway that restarts. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { cookieSecret, signed, COOKIE } from '../../services/gateway/src/dashboard/visit.ts'
import { assertAccessible, HOSTILE } from './browser.ts'
import { pagesOf } from './pages.ts'
import { answerTo, answerWith, cli, converse, projected, published } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage
before(async () => {
  on = await stage()
  on.context.on('dialog', (dialog) => {
    on.faults.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  await converse(on.post, 'ann')
  await published(on.url())
})
after(() => on?.close())

/** No text has become an element, and none has run. */
const assertPlain = async (name: string): Promise<void> => {
  const found = await on.page.evaluate(`({
    elements: document.querySelectorAll('main img, main script, main iframe, main object, main style').length,
    handlers: [...document.querySelectorAll('main *')].filter((one) => [...one.attributes].some(({ name }) => name.startsWith('on'))).length,
    title: document.title,
  })`)
  assert.deepEqual(found, { elements: 0, handlers: 0, title: 'Instar' }, name)
}
const loaded = (): Promise<unknown> => on.page.waitForSelector('[aria-busy=true]', { state: 'detached' })

test('prompts, names and arguments of tools, labels of sessions and people, and comments are text', async () => {
  const { page } = on
  const response = await fetch(`${on.url()}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-session-id': HOSTILE },
    body: JSON.stringify({
      model: 'policy',
      user: HOSTILE,
      tools: [{ type: 'function', function: { name: 'look', description: HOSTILE, parameters: { type: 'object' } } }],
      messages: [
        { role: 'system', content: `System ${HOSTILE}` },
        { role: 'user', content: `Person ${HOSTILE}` },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'call_1', type: 'function', function: { name: 'look', arguments: JSON.stringify({ at: HOSTILE }) } },
          ],
        },
        { role: 'tool', tool_call_id: 'call_1', content: `Tool ${HOSTILE}` },
        { role: 'user', content: `Again ${HOSTILE}` },
      ],
    }),
  })
  assert.equal(response.status, 200)
  const turn = response.headers.get('x-instar-turn-id')!
  await on.post('/v1/feedback', { turn_id: turn, value: -1, comment: HOSTILE })
  await projected(on.url(), turn)
  await on.open('/sessions')
  await page.locator('tbody tr a').first().click()
  for (const who of ['System', 'Person', 'Tool', 'Again']) await page.getByText(`${who} <img`).first().waitFor()
  await page.locator('.call').getByText('<script>').first().waitFor()
  await assertPlain('session')
  await on.open(`/turns/${turn}`)
  await page.getByText('Prompt as the model saw it').click()
  await page.getByText('onerror=').first().waitFor()
  await assertPlain('turn')
  await on.open(`/compare?turn=${turn}&b=0`)
  await page.getByText('The whole prompt').click()
  await page.getByText('onerror=').first().waitFor()
  await page.getByRole('button', { name: 'Choose another' }).click()
  await page.locator('.choices').getByText('Again <img').first().waitFor()
  await assertPlain('compare')
  await on.open(`/sessions?text=${encodeURIComponent('onerror=')}`)
  await page.locator('.hits mark').first().waitFor()
  await assertPlain('search')
})

test('whatever text the gateway sends, on every page it is text', async () => {
  const { page } = on
  const pages = await pagesOf(on.url())
  const known =
    /^(\d{4}-\d\d-\d\dT|[0-9a-f.]{8,}$|(main|side|turn|open|none|complete|serving|superseded|rejected|accepted|ok|note|wrong|unsure)$)/
  /** A reason, a name, a hint, an id that the gateway could send. */
  const hostile = (value: unknown): unknown =>
    typeof value === 'string'
      ? known.test(value)
        ? value
        : `${value}${HOSTILE}`
      : Array.isArray(value)
        ? value.map(hostile)
        : value !== null && typeof value === 'object'
          ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, hostile(one)]))
          : value
  let sent = 0
  await page.route(/\/v1\/dashboard\/(?!events|session$)/, async (route) => {
    const response = await answerTo(route)
    const type = response.headers()['content-type'] ?? ''
    if (!type.includes('json')) return route.fulfill({ response })
    sent += 1
    return answerWith(route, response, hostile(await response.json()))
  })
  try {
    for (const [name, address] of Object.entries(pages)) {
      await page.goto('about:blank')
      await on.open(address)
      await loaded()
      await assertPlain(name)
    }
  } finally {
    await page.unrouteAll({ behavior: 'wait' })
  }
  assert.ok(sent >= 8, `${sent} answers were changed`)
})

test('what could not be read while the gateway was away is read once it is back', async () => {
  const { page } = on
  await on.open('/sessions')
  await page.locator('tbody tr a').first().waitFor()
  await on.stop()
  await page.getByText('Connection lost').waitFor()
  await page.evaluate(`location.hash = '#/versions'`)
  await page.getByText('The gateway cannot be reached.').first().waitFor()
  await on.again()
  await page.getByRole('heading', { name: 'Versions', exact: true }).waitFor({ timeout: 60_000 })
  await page.getByRole('link', { name: '1', exact: true }).first().waitFor({ timeout: 60_000 })
  assert.equal(await page.getByText('The gateway cannot be reached.').count(), 0)
  await page.getByText('Live', { exact: true }).waitFor()
})

const keyWith = async (scopes: string): Promise<string> =>
  (
    JSON.parse(await cli(on.env(), 'keys', 'add', scopes.replaceAll(',', '-'), '--scopes', scopes, '--json')) as {
      token: string
    }
  ).token

const signInWith = async (token: string): Promise<void> => {
  const { page } = on
  if ((await page.getByRole('button', { name: 'Sign out' }).count()) > 0)
    await page.getByRole('button', { name: 'Sign out' }).click()
  else await page.reload()
  await page.getByLabel('API key').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

/** The token of a key with all scopes that a person at the dashboard needs. */
let everything: string

test('a key without the scope read sees pages without texts; one without others is told which scope is missing', async () => {
  const { page } = on
  const pages = await pagesOf(on.url())
  const [admin, reader, other] = [await keyWith('admin'), await keyWith('read'), await keyWith('inference')]
  everything = await keyWith('read,inference,feedback')
  // A gateway looks at its file of keys now and then, and at its start.
  await on.stop()
  await on.again()
  await on.page.goto(on.url())
  await page.reload()
  await page.getByLabel('API key').waitFor()
  await page.getByLabel('API key').fill(other)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('has neither the scope read nor admin').waitFor()
  await signInWith(admin)
  for (const [name, address] of Object.entries(pages)) {
    await on.open(address)
    await loaded()
    assert.equal(await page.locator('.note.error[role=alert]').count(), 0, `${name} shows an error`)
    assert.equal(await page.getByText(/plus 5\?|onerror=/).count(), 0, `${name} shows what a person wrote`)
  }
  await on.open(pages['session']!)
  await page.getByText('Texts are hidden: they need an API key with the scope read').waitFor()
  await on.open(pages['turn']!)
  await page.getByText('Tokens are hidden').waitFor()
  await on.open('/versions')
  await page.getByRole('button', { name: 'Freeze learning' }).waitFor()
  await signInWith(reader)
  await on.open('/versions')
  await page.getByRole('link', { name: '1', exact: true }).first().waitFor()
  await page.getByText('a session needs the scope admin').waitFor()
  assert.ok(await page.getByRole('button', { name: 'Freeze learning' }).isDisabled())
  await on.open(pages['session']!)
  await page.getByText('Again <img').first().waitFor()
  await page.getByRole('button', { name: 'Good answer' }).first().click()
  await page
    .getByRole('alert')
    .getByText(/scope feedback/)
    .waitFor()
  await on.open('/compare')
  await page.getByRole('button', { name: 'Ask both' }).click()
  await page
    .getByRole('alert')
    .getByText(/scope inference/)
    .first()
    .waitFor()
  await assertAccessible(page, 'a scope is missing')
})

test('a session that has expired says so, and another one begins', async () => {
  const { page } = on
  await signInWith(everything)
  await on.open('/sessions')
  await page.locator('tbody tr a').first().waitFor()
  const secret = cookieSecret(readFileSync(path.join(on.data, 'admin.token'), 'utf8').trim())
  const [cookie] = (await on.context.cookies()).filter(({ name }) => name === COOKIE)
  const expired = signed(secret, { id: 'admin', binding: '' }, Date.now() - 1)
  await on.context.addCookies([{ ...cookie!, value: expired }])
  await page.getByRole('button', { name: 'Refresh' }).click()
  await page.getByRole('alert').getByText('The session has ended.').waitFor()
  await page.reload()
  await page.getByLabel('API key').fill(everything)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.locator('tbody tr a').first().waitFor()
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
