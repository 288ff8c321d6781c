/** Buttons that lead to further data, act on a turn or a version, or stop what is pushed; and what is pushed to an open page. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import type { Locator } from 'playwright-core'
import { count, duration, number, percent, reward } from '../../packages/dashboard/web/format.ts'
import { assertAccessible, HOSTILE } from './browser.ts'
import { answerTo, answerWith, converse, projected, published, until } from './rig.ts'
import { stage, type Stage } from './stage.ts'

/** More than one page has of sessions, hits of a search, and people (50 each). */
const PEOPLE = 52
/** Candidates of 13 requests in one session: more than a page has of its turns (200). */
const [REQUESTS, CANDIDATES] = [13, 16]

type Version = Record<string, number | null>
type Reading = { head: number; frozen: boolean; index: { turns: number; sessions: number } }

let on: Stage
/** A turn that version 0 sampled, a session of many turns, and a turn that is not trained on. */
const seeded = { first: '', long: '', greedy: '' }

const read = async <T>(address: string): Promise<T> =>
  (await (await fetch(`${on.url()}/v1/dashboard/${address}`)).json()) as T

const command = async (name: string, body: object): Promise<void> => {
  const response = await fetch(`${on.url()}/admin/${name}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${await on.adminToken()}` },
    body: JSON.stringify({ why: 'A test', ...body }),
  })
  assert.ok(response.ok, `${name} ${response.status}`)
}

/** The turn of an answer, in a session of its own if `session` names one. */
const ask = async (content: string, more: object = {}, session?: string): Promise<string> => {
  const response = await fetch(`${on.url()}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(session ? { 'x-session-id': session } : {}) },
    body: JSON.stringify({ model: 'policy', max_tokens: 2, messages: [{ role: 'user', content }], ...more }),
  })
  assert.equal(response.status, 200, await response.text())
  return response.headers.get('x-instar-turn-id')!
}

/** The cards of Now by their heading. */
const card = (title: string): Locator =>
  on.page.locator('section.card').filter({ has: on.page.getByRole('heading', { name: title, exact: true }) })

/** The figures of the chosen token by their name. */
const figures = async (): Promise<Record<string, string>> => {
  const facts = on.page.locator('.token-facts')
  const names = await facts.locator('dt').allTextContents()
  const values = await facts.locator('dd').allTextContents()
  return Object.fromEntries(names.map((name, i) => [name, values[i]!]))
}

before(async () => {
  on = await stage()
  await converse(on.post, 'ann')
  await published(on.url())
  // What follows is trained on once a test resumes it.
  await command('freeze', {})
  const { turns } = await read<{ turns: { turn_id: string; used: boolean }[] }>('versions/1')
  seeded.first = turns.find(({ used }) => used)!.turn_id
  for (let n = 0; n < PEOPLE; n += 4)
    await Promise.all(
      [0, 1, 2, 3].map(async (more) => {
        const turn = await ask(`Further ${n + more}?`, { user: `person ${n + more}` })
        await on.post('/v1/feedback', { turn_id: turn, value: true })
      }),
    )
  for (let n = 0; n < REQUESTS; n += 1) seeded.long = await ask(`Many ${n}?`, { user: 'long', n: CANDIDATES }, 'long')
  seeded.greedy = await ask('Without chance?', { user: 'greedy', temperature: 0 })
  await projected(on.url(), seeded.greedy)
  await until<{ rows: unknown[]; next: object | null }>(
    on.url(),
    'sessions?reward=positive',
    ({ next }) => next !== null,
  )
})
after(() => on?.close())

/** What a button adds: the number of `rows` before and after it was clicked, until it is gone. */
const further = async (button: string, rows: Locator): Promise<number[]> => {
  const counts: number[] = []
  const more = on.page.getByRole('button', { name: button, exact: true })
  await more.waitFor()
  counts.push(await rows.count())
  await more.click()
  await rows.nth(counts[0]!).waitFor()
  await more.waitFor({ state: 'detached' })
  counts.push(await rows.count())
  return counts
}

test('older sessions, older prompts, older hits and further people are read when asked for', async () => {
  const { page } = on
  const { index } = await read<Reading>('now')
  await on.open('/sessions')
  const links = page.locator('tbody tr td:first-child a')
  assert.deepEqual(await further('Older sessions', links), [50, index.sessions])
  const ids = await links.evaluateAll((all) => all.map((one) => one.getAttribute('href')))
  assert.equal(new Set(ids).size, index.sessions, 'no session twice')
  await on.open('/sessions?text=Further')
  assert.deepEqual(await further('Search older turns', page.locator('.hits mark')), [50, PEOPLE])
  await page.getByText(`${PEOPLE} of the newest`).waitFor()
  await on.open('/compare')
  await page.getByLabel('from history').check()
  const prompts = page.locator('.choices button')
  await page.getByRole('button', { name: 'Older prompts' }).waitFor()
  const few = await prompts.count()
  await page.getByRole('button', { name: 'Older prompts' }).click()
  await prompts.nth(few).waitFor()
  await on.open('/learning')
  const people = page.getByRole('region', { name: 'People' }).locator('tbody tr')
  const [some, all] = await further('More', people)
  assert.equal(some, 50)
  assert.ok(all! >= PEOPLE, `${all} people`)
})

test('a long session shows its later turns when asked for, each once', async () => {
  const { page } = on
  const { turn } = await read<{ turn: { session_id: string } }>(`turns/${seeded.long}`)
  await on.open(`/sessions/${turn.session_id}`)
  const cards = page.locator('ol.turns > li')
  assert.deepEqual(await further('Later turns', cards), [200, REQUESTS * CANDIDATES])
  const ids = await cards
    .locator('a[href^="#/turns/"]')
    .evaluateAll((all) => all.map((one) => one.getAttribute('href')))
  assert.equal(new Set(ids).size, REQUESTS * CANDIDATES)
})

test('a long table shows its further rows when asked for', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  const reasons = ['kl_parent', 'content', 'length']
  await page.route('**/v1/dashboard/versions', async (route) => {
    const response = await answerTo(route)
    const at = new Date(0).toISOString()
    const updates = Array.from({ length: 60 }, (_, i) => ({
      number: i + 1,
      status: 'rejected',
      reason: reasons[i % 3],
      parent_version: 1,
      items: 16,
      decided_at: at,
      finished_at: at,
    }))
    await answerWith(route, response, { ...((await response.json()) as object), updates })
  })
  await on.open('/versions')
  await page.reload()
  const rows = page.getByRole('region', { name: 'Rejected updates' }).locator('tbody tr')
  assert.deepEqual(await further('10 more of 60', rows), [50, 60])
  const words = ['too far from its parent in one step', 'it lost probes', 'answers became too long']
  for (const [i, said] of words.entries()) assert.equal(await rows.nth(i).locator('td').nth(3).textContent(), said)
})

test('log-probs under the head and under a version are those that the gateway computes, with the likeliest tokens', async () => {
  const { page } = on
  type Scored = { logprobs: number[]; top: { text: string; logprob: number }[][] }
  const { tokens } = await read<{ tokens: { logprob: number }[] }>(`turns/${seeded.first}/tokens`)
  const [base, head] = [
    await read<Scored>(`turns/${seeded.first}/logprobs?version=0`),
    await read<Scored>(`turns/${seeded.first}/logprobs?version=1`),
  ]
  // Where the update changed most.
  const change = (i: number): number => Math.abs(head.logprobs[i]! - base.logprobs[i]!)
  const at = head.logprobs.reduce((most, _, i) => (change(i) > change(most) ? i : most), 0)
  assert.ok(change(at) > 0.0005, 'version 1 differs from version 0')
  for (const [i, { logprob }] of tokens.entries())
    assert.ok(Math.abs(logprob - base.logprobs[i]!) < 0.01, 'version 0 sampled the turn')
  await on.open(`/turns/${seeded.first}`)
  await page.getByRole('button', { name: 'the head (1)' }).click()
  await page.getByText('log-prob under version 1').waitFor()
  await page.locator('.tokens .token').nth(at).click()
  await page.getByText(`Token ${at + 1} of ${tokens.length}`).waitFor()
  const under = await figures()
  assert.equal(under['log-prob when sampled'], number(tokens[at]!.logprob, 3, true))
  assert.equal(under['log-prob under version 1'], number(head.logprobs[at], 3, true))
  assert.equal(under['change by version 1'], number(head.logprobs[at]! - tokens[at]!.logprob, 3, true))
  const likely = head.top[at]!
  assert.equal(likely.length, 5)
  assert.deepEqual(
    await page.locator('.token-facts li').allTextContents(),
    likely.map(({ text, logprob }) => `${JSON.stringify(text)} ${number(100 * Math.exp(logprob), 1)} %`),
  )
  assert.ok(
    likely.every(({ logprob }, i) => i === 0 || logprob <= likely[i - 1]!.logprob),
    'the likeliest first',
  )
  assert.ok(likely.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0) <= 1.0001)
  await page.getByLabel('version', { exact: true }).fill('0')
  await page.getByRole('button', { name: 'Show', exact: true }).click()
  await page.getByText('log-prob under version 0').waitFor()
  assert.equal((await figures())['log-prob under version 0'], number(base.logprobs[at], 3, true))
  await assertAccessible(page, 'log-probs')
})

test('a thumb down with a comment in a session is recorded, and shown once it is read', async () => {
  const { page } = on
  const { turn } = await read<{ turn: { session_id: string } }>(`turns/${seeded.greedy}`)
  await on.open(`/sessions/${turn.session_id}`)
  await page.getByText('Not trained on. It was sampled at a temperature near 0').waitFor()
  await page.getByRole('button', { name: 'Comment' }).click()
  await page.getByLabel('Comment').fill(`Say why. ${HOSTILE}`)
  await page.getByRole('button', { name: 'Bad answer' }).click()
  await page.getByText('Recorded').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Bad answer' }).getAttribute('aria-pressed'), 'true')
  await until<{ turn: { feedback: { value: number }[] | null } }>(
    on.url(),
    `turns/${seeded.greedy}`,
    ({ turn: { feedback } }) => feedback?.at(-1)?.value === -1,
  )
  await page.getByRole('button', { name: 'Refresh' }).click()
  await page.locator('dl.facts div').filter({ hasText: 'Feedback' }).getByText(reward(-1)).waitFor()
  await page.getByRole('button', { name: 'Good answer' }).click()
  await page.getByText('Recorded').waitFor()
  await until<{ turn: { feedback: { value: number }[] | null } }>(
    on.url(),
    `turns/${seeded.greedy}`,
    ({ turn: { feedback } }) => feedback?.at(-1)?.value === 1,
  )
})

test('a new conversation on Talk is another session', async () => {
  const { page } = on
  await on.open('/talk')
  const say = async (text: string): Promise<string> => {
    await page.getByLabel('Message').fill(text)
    const [request] = await Promise.all([
      page.waitForRequest((one) => one.url().endsWith('/v1/chat/completions')),
      page.getByRole('button', { name: 'Send' }).click(),
    ])
    await page.getByRole('button', { name: 'Good answer' }).last().waitFor()
    return request.headers()['x-session-id']!
  }
  const first = await say('One?')
  await page.getByRole('button', { name: 'New conversation' }).click()
  await page.locator('.messages li').first().waitFor({ state: 'detached' })
  assert.notEqual(await say('Two?'), first)
  assert.equal(await page.locator('.messages li').count(), 2, 'the first conversation is gone')
})

test('hints and names of tools are shown as they were written', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  const { turn } = await read<{ turn: { session_id: string } }>(`turns/${seeded.first}`)
  const name = `look${HOSTILE}`
  const hint = `Better: ${HOSTILE}`
  await page.route('**/v1/dashboard/turns/*/text', async (route) => {
    const response = await answerTo(route)
    const said = (await response.json()) as { messages: { role: string; content: object }[] }
    const calls = [{ name, input: { text: '{}', omitted: 0 } }]
    const messages = said.messages.map((one) => ({ ...one, name, calls }))
    await answerWith(route, response, { ...said, messages })
  })
  await page.route(/\/v1\/dashboard\/(sessions|turns|versions)\/[^/]+$/, async (route) => {
    const response = await answerTo(route)
    const found = (await response.json()) as { turns?: object; turn?: object }
    const hinted = (rows: object[]): object[] => rows.map((row) => ({ ...row, hint }))
    const turns = found.turns as { rows: object[] } | object[] | undefined
    const json = {
      ...found,
      ...(found.turn ? { turn: { ...found.turn, hint } } : {}),
      ...(turns ? { turns: Array.isArray(turns) ? hinted(turns) : { ...turns, rows: hinted(turns.rows) } } : {}),
    }
    await answerWith(route, response, json)
  })
  const plain = async (): Promise<void> => {
    assert.deepEqual([await page.title(), await page.locator('main img, main script').count()], ['Instar', 0])
  }
  await on.open(`/sessions/${turn.session_id}`)
  await page.locator('.call code').getByText(name).first().waitFor()
  await page.locator('.who').getByText(`user ${name}`).first().waitFor()
  await page.locator('dl.facts').getByText(`“${hint}”`).first().waitFor()
  await plain()
  await on.open(`/turns/${seeded.first}`)
  await page.locator('dl.facts').getByText(`“${hint}”`).waitFor()
  await plain()
  await on.open('/versions/1')
  await page.getByRole('cell', { name: hint }).first().waitFor()
  await plain()
})

test('Health says of an error that a client got how often, what it means and what to do', async () => {
  const { page } = on
  const refused = await fetch(`${on.url()}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy', messages: [] }),
  })
  assert.equal(refused.status, 400)
  const { error } = (await refused.json()) as { error: { code: string } }
  const help = await read<Record<string, { meaning: string; todo: string }>>('errors')
  const { meaning, todo } = help[error.code]!
  await on.open('/health')
  const rows = page.getByRole('region', { name: 'Errors' }).locator('tbody tr')
  const row = rows.filter({ has: page.getByText(error.code, { exact: true }) })
  await row.getByText(meaning).waitFor()
  assert.deepEqual(await row.locator('td').allTextContents(), [error.code, '1', meaning, todo])
  assert.ok(meaning.length > 10 && todo.length > 10)
})

test('Health shows how much is asked, how fast it is answered, and the memory, with units', async () => {
  const { page } = on
  type Times = { count: number; p50: number; p99: number }
  type Traffic = { requests: number; tokens: number; first_token: Times; duration: Times; per_token: number }
  const traffic = async (): Promise<Traffic> => (await read<{ traffic: Traffic }>('now')).traffic
  await on.open('/health')
  const row = (name: string): Locator =>
    page.getByRole('region', { name: 'Traffic and memory' }).locator('tbody tr').filter({ hasText: name }).first()
  const value = async (name: string): Promise<string> => (await row(name).locator('td').nth(1).textContent())!
  await row('Memory of the gateway').getByText('MiB').first().waitFor()
  const before = await traffic()
  assert.equal(await value('Requests'), count(before.requests))
  await ask('How fast?', { user: 'fast' })
  await row('Requests')
    .getByText(count(before.requests + 1), { exact: true })
    .waitFor()
  // The figures of an answer's tokens are counted with it.
  await until<{ traffic: Traffic }>(on.url(), 'now', (now) => now.traffic.tokens > before.tokens)
  const now = await traffic()
  assert.ok(now.requests > PEOPLE && now.first_token.count > REQUESTS * CANDIDATES)
  assert.ok(now.first_token.p50 > 0 && now.first_token.p50 <= now.first_token.p99)
  const shown = ({ p50, p99 }: Times): string => `${duration(1_000 * p50)}, ${duration(1_000 * p99)}`
  await row('Time to first token').getByText(shown(now.first_token), { exact: true }).waitFor()
  assert.equal(await value('Time of a request'), shown(now.duration))
  assert.equal(await value('Time between two tokens'), `${number(1_000 * now.per_token, 1)} ms`)
  assert.equal(await value('Engine, waiting'), '0')
  const mib = Number((await value('Memory of the gateway')).replace(/,| MiB/g, ''))
  assert.ok(mib > 50 && mib < 8_000, `${mib} MiB`)
  // A rate is told once there is a second to tell it of.
  while (!/^\d/.test(await value('Requests per second'))) await ask('And now?', { user: 'fast' })
  assert.ok(Number(await value('Requests per second')) > 0)
  await assertAccessible(page, 'traffic')
})

test('Now stands still while it is paused, and goes on', async () => {
  const { page } = on
  await on.open('/')
  const value = card('Conversations').locator('.value')
  const { index } = await read<Reading>('now')
  await card('Conversations').getByText(`with ${index.turns} turns`).waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByText('Paused', { exact: true }).waitFor()
  const before = await value.textContent()
  await ask('While it is paused?', { user: 'paused' })
  await until<Reading>(on.url(), 'now', (now) => now.index.turns === index.turns + 1)
  assert.equal(await value.textContent(), before)
  await page.getByRole('button', { name: 'Go on' }).click()
  await page.getByText('Live', { exact: true }).waitFor()
  await card('Conversations')
    .getByText(`with ${index.turns + 1} turns`)
    .waitFor()
})

test('an open Now changes with a turn, a freeze, its end and a version, and is not loaded again', async () => {
  const { page } = on
  await on.open('/')
  await page.evaluate('window.stays = 1')
  const { index } = await read<Reading>('now')
  await ask('Another?', { user: 'live' })
  await card('Conversations')
    .getByText(`with ${index.turns + 1} turns`)
    .waitFor()
  await card('Learning').locator('.value').getByText('Frozen').waitFor()
  await card('Serving').getByText('Version 1').waitFor()
  await command('thaw', {})
  await card('Learning').locator('.value').getByText('Frozen').waitFor({ state: 'detached' })
  await card('Serving')
    .getByText(/Version [2-9]/)
    .waitFor({ timeout: 60_000 })
  await command('freeze', {})
  await card('Learning').locator('.value').getByText('Frozen').waitFor()
  assert.equal(await page.evaluate('window.stays'), 1)
})

test('Now says how far an update is, what the gate does, what was lost, and why turns were not trained on', async (t) => {
  const { page } = on
  t.after(() => page.unrouteAll({ behavior: 'wait' }))
  const now = await read<{ gauges: object; log: object; head: number }>('now')
  const one = (value: number, labels = {}): object[] => [{ labels, value }]
  const gauges = {
    ...now.gauges,
    instar_update_progress: one(0.42),
    instar_update_remaining_seconds: one(90),
    instar_turns_pending: one(7),
    instar_turns_needed: one(9),
    instar_publisher_waits: one(1, { for: 'evaluate' }),
    instar_gate_probes: one(40),
    instar_log_dead_letters: one(3),
    instar_judge_replaced: one(1, { why: 'failed' }),
    instar_turns_skipped_total: [...one(5, { reason: 'abstained' }), ...one(2, { reason: 'of_tomorrow' })],
    instar_turns_dropped_total: one(4, { reason: 'stale' }),
  }
  const reading = { ...now, frozen: false, serving: now.head, rejections_in_a_row: 3, gauges }
  await page.route('**/v1/dashboard/events', (route) =>
    route.fulfill({ contentType: 'text/event-stream', body: `event: now\ndata: ${JSON.stringify(reading)}\n\n` }),
  )
  await on.open('/')
  await page.reload()
  const learning = card('Learning')
  await learning
    .locator('.value')
    .getByText(`Update ${percent(0.42)}`)
    .waitFor()
  assert.equal(await learning.locator('progress').getAttribute('value'), '0.42')
  for (const said of ['About 1 min 30 s left', '7 scored turns wait', 'still needs 9 usable', 'rejected the last 3'])
    await learning.getByText(said.split(' ').at(-1)!).first().waitFor()
  const text = (await learning.textContent())!.replaceAll(/\s+/g, ' ')
  for (const said of ['About 1 min 30 s left', '7 scored turns wait', 'still needs 9 usable', 'rejected the last 3'])
    assert.ok(text.includes(said), `${said}: ${text}`)
  const gate = (await card('Gate').textContent())!
  for (const said of ['Measuring a candidate', '40 test questions', '3 updates rejected in a row'])
    assert.ok(gate.includes(said), `${said}: ${gate}`)
  assert.match((await card('Serving').textContent())!, new RegExp(`Version ${now.head}`))
  await card('Log').getByText('3 records that cannot be read').waitFor()
  assert.equal(await card('Judge').locator('.bad').count(), 1)
  const skipped = page.getByRole('region', { name: 'Reasons why turns were skipped or dropped' }).locator('tbody tr')
  assert.deepEqual(
    await skipped.evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent))),
    [
      ['No judge had an opinion about it.', '5'],
      ['of tomorrow', '2'],
      ['The model has moved on since it was sampled.', '4'],
    ],
  )
  await assertAccessible(page, 'now, with an update')
})

test('two marked versions are compared with the figures of the read model and the limits of the gate', async () => {
  const { page } = on
  await on.open('/versions')
  await page.reload()
  await page.getByLabel('Mark version 2').check()
  await page.getByLabel('Mark version 0').check()
  await page.getByRole('link', { name: 'Compare 0 and 2' }).click()
  await page.getByRole('heading', { name: 'Figures beside version 0' }).waitFor()
  const { versions } = await read<{ versions: Version[] }>('versions')
  const [base, second] = [0, 2].map((one) => versions.find(({ version }) => version === one)!)
  const cells = await page
    .getByRole('region', { name: 'Figures' })
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)))
  const shown = (name: string): (string | null)[] => cells.find(([figure]) => figure === name)!.slice(1)
  for (const [name, column, digits] of [
    ['Share of probes answered', 'content', 3],
    ['KL to the base, nats per token', 'kl_base', 4],
    ['Entropy, nats per token', 'entropy', 3],
    ['Mean length of samples, tokens', 'sampled_length', 1],
    ['Gradient norm', 'grad_norm', 3],
    ['Turns trained on', 'trained_turns', 0],
  ] as const)
    assert.deepEqual(shown(name), [number(second![column], digits), number(base![column], digits)], name)
  assert.notEqual(shown('KL to the base, nats per token')[0], '–')
  const { limits } = await read<{ limits: Record<string, number> }>('versions/2')
  const [limit, value] = Object.entries(limits)[0]!
  await page.getByText('All figures and limits of the gate').click()
  const row = page.getByRole('region', { name: 'Gate' }).locator('tr').filter({ hasText: limit }).first()
  assert.equal(await row.locator('td').nth(2).textContent(), number(value, 4))
})

test('an earlier version serves from its page, after a dialog that says what happens and wants a reason', async () => {
  const { page } = on
  await on.signIn()
  const { head } = await read<Reading>('now')
  await on.open('/versions/1')
  await page.getByRole('button', { name: 'Serve this version' }).click()
  const dialog = page.getByRole('dialog')
  const what = ((await dialog.textContent()) ?? '').replaceAll(/\s+/g, ' ')
  assert.match(what, new RegExp(`New requests get version 1 instead of ${head}`))
  assert.match(what, /Learning is frozen, so that nothing is learned on top until you resume it/)
  await dialog.getByRole('button', { name: 'Serve version 1' }).click()
  assert.ok(
    await dialog
      .getByLabel('Reason')
      .evaluate((one: { validity: { valueMissing: boolean } }) => one.validity.valueMissing),
  )
  assert.equal((await read<Reading>('now')).head, head, 'nothing happens without a reason')
  await dialog.getByLabel('Reason').fill('It was better')
  await dialog.getByRole('button', { name: 'Serve version 1' }).click()
  await dialog.waitFor({ state: 'detached' })
  await page.getByRole('button', { name: 'Serve this version' }).waitFor({ state: 'detached' })
  assert.equal((await read<Reading>('now')).head, 1)
  type Row = { version: number; status: string }
  await until<{ versions: Row[]; moves: { to_version: number; who: string }[] }>(
    on.url(),
    'versions',
    ({ versions, moves }) =>
      versions.some(({ version, status }) => version === head && status === 'rolled_back') &&
      moves.some(({ to_version, who }) => to_version === 1 && who !== 'publisher'),
  )
  await on.open('/versions')
  await page.reload()
  const chart = page.getByRole('region', { name: 'Lineage of the versions' })
  await chart.locator('path.move').first().waitFor()
  assert.deepEqual(await chart.locator('path.move title').allTextContents(), [
    `dashboard (admin token): ${head} → 1 It was better`,
  ])
  const circle = (version: number): Locator => chart.locator(`a[href="#/versions/${version}"] circle`)
  assert.match((await circle(1).getAttribute('class'))!, /serving/)
  assert.match((await circle(head).getAttribute('class'))!, /rolled_back/)
  const height = async (version: number): Promise<number> => Number(await circle(version).getAttribute('cy'))
  assert.equal(await height(1), await height(0))
  assert.ok((await height(head)) > (await height(1)), 'a lower lane')
  await circle(head).click()
  await page.getByRole('heading', { name: `Version ${head}`, exact: true }).waitFor()
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
