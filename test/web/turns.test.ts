/** Sessions, Turn and Compare. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { assertAccessible } from './browser.ts'
import { tapeNamed } from '../clients/tapes/replay.ts'
import { branched, cli, converse, projected, published } from './rig.ts'
import { stage, type Stage } from './stage.ts'

let on: Stage
before(async () => {
  on = await stage()
  await converse(on.post, 'ann')
  await published(on.url())
})
after(() => on?.close())

const firstTurn = async (): Promise<void> => {
  await on.open('/sessions')
  await on.page.locator('tbody tr a').first().click()
  await on.page.locator('a[href^="#/turns/"]').first().click()
  await on.page.getByRole('heading', { name: 'Answer, token by token' }).waitFor()
}

test('a turn shows what the update that was trained on it did with each token', async () => {
  const { page } = on
  await on.open('/versions/1')
  await page.locator('tr').filter({ hasText: 'yes' }).first().locator('a[href^="#/turns/"]').click()
  await page.getByRole('button', { name: 'What the update did with each' }).click()
  await page.getByText('Not masked: every token counted.').waitFor()
  const facts = page.locator('.token-facts')
  await facts.getByText('pull of the reward').waitFor()
  const texts = await facts.locator('dt, dd').allTextContents()
  const value = (name: string): number => Number(texts[texts.indexOf(name) + 1]!.replace('−', '-'))
  assert.ok(Math.abs(value('weight') - 1) < 0.02, 'the parent sampled the turn, so its ratio is 1')
  assert.ok(Math.abs(value('pull of the reward') - value('advantage') * value('weight')) < 0.002)
  await assertAccessible(page, 'learned')
})

test('the candidates of a request stand side by side with their texts, and say which one was sent', async () => {
  const { page } = on
  const answer = await on.post('/v1/chat/completions', {
    model: 'policy',
    n: 3,
    user: 'ben',
    temperature: 1.3,
    messages: [{ role: 'user', content: 'What is 2 plus 2?' }],
  })
  const texts = (answer['choices'] as { message: { content: string } }[]).map(({ message }) => message.content)
  await projected(on.url(), String(answer['turn']), texts.length)
  await on.open(`/turns/${String(answer['turn'])}`)
  await page.getByRole('heading', { name: 'The 3 answers that were sampled for this request' }).waitFor()
  for (const [i, said] of texts.entries()) {
    const card = page.getByRole('region', { name: `Candidate ${i + 1}`, exact: true })
    await card.getByText('sent to the person').waitFor()
    assert.equal((await card.locator('.clipped').textContent())?.trim(), said.trim())
  }
  await assertAccessible(page, 'candidates')
  await page.getByRole('link', { name: 'Candidate 3' }).click()
  await page.getByRole('heading', { name: 'Candidate 3, this turn' }).waitFor()
})

test('sessions show where they begin; side turns, compactions and subagents are what they are', async () => {
  const { page } = on
  const ask = async (headers: Record<string, string>, messages: { role: string; content: string }[]) => {
    const response = await fetch(`${on.url()}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'policy', user: 'cleo', messages }),
    })
    return {
      turn: response.headers.get('x-instar-turn-id')!,
      text: ((await response.json()) as { choices: [{ message: { content: string } }] }).choices[0].message.content,
    }
  }
  const agent = { 'x-opencode-session': 'work-1' }
  const user = (content: string) => ({ role: 'user', content })
  const first = await ask(agent, [user('Mend the tests of the parser.')])
  await ask(agent, [{ role: 'system', content: 'You are a title generator.' }, user('Mend the tests of the parser.')])
  await ask(agent, [
    { role: 'system', content: 'You are a context summarization agent.' },
    user('Mend the tests of the parser.'),
    { role: 'assistant', content: first.text },
    user('Summarize.'),
  ])
  await ask(agent, [
    user('Summary: the tests are half mended.'),
    { role: 'assistant', content: 'I go on.' },
    user('Go on.'),
  ])
  const child = await ask({ 'x-opencode-session': 'work-2', 'x-parent-session-id': 'work-1' }, [
    user('Look at one file.'),
  ])
  await projected(on.url(), child.turn)
  await on.open('/sessions')
  await page.reload()
  const row = page.locator('tr').filter({ hasText: 'Mend the tests of the parser.' })
  await row.getByText('1 + 2 side').or(row.getByText('2 + 2 side')).waitFor()
  assert.equal(await page.locator('tr').filter({ hasText: 'Look at one file.' }).getByText('subagent').count(), 1)
  await assertAccessible(page, 'sessions')
  await row.locator('a').first().click()
  await page.getByText('the agent asked for a title of the conversation').waitFor()
  await page.getByText('which takes the place of the conversation so far').waitFor()
  await page.getByText('the agent replaced or shortened the conversation').waitFor()
  await page.getByText('the agent sends its own session id').waitFor()
  await page.getByText('Subagents that it started').locator('a').click()
  await page.getByText('started this one for a part of its task').waitFor()
  await on.open('/sessions')
  await page.getByLabel('Known as one session by').selectOption('agent')
  await page.getByLabel('With a turn not trained on because').selectOption('side')
  await page.getByRole('button', { name: 'Filter', exact: true }).click()
  await page.getByText('Filters (2)').waitFor()
  await row.waitFor()
  await page.locator('tbody tr:first-child:last-child').waitFor()
  assert.equal(await page.locator('tbody tr').count(), 1)
})

/** The user agent of a recorded client. (The recordings share one session id.) */
const recorded = (tape: string): Record<string, string> => ({
  'user-agent': tapeNamed(tape).requests[0]!.headers['user-agent']!,
})

test('sessions are found by the agent that sent them, by its recorded user agent; that is never shown', async () => {
  const { page } = on
  const ask = async (headers: Record<string, string>, content: string): Promise<string> => {
    const response = await fetch(`${on.url()}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'policy', messages: [{ role: 'user', content }] }),
    })
    assert.equal(response.status, 200, await response.text())
    return response.headers.get('x-instar-turn-id')!
  }
  await ask(recorded('claude.journey'), 'Is the parser tested?')
  await ask(recorded('codex.journey'), 'Is the lexer tested?')
  await ask(recorded('opencode.journey'), 'Is the printer tested?')
  const last = await ask({ 'user-agent': '<img src=x onerror=alert(1)>/1.0' }, 'Is the linker tested?')
  await projected(on.url(), last)
  await on.open('/sessions')
  await page.reload()
  const agent = page.locator('select[name=agent]')
  for (const [name, said] of [
    ['Claude Code', 'Is the parser tested?'],
    ['Codex', 'Is the lexer tested?'],
    ['OpenCode', 'Is the printer tested?'],
  ] as const) {
    await agent.selectOption(name)
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    // The row is there before it is filtered, too, and the table is empty in between.
    await page.waitForFunction(
      ({ body, wanted }) => {
        const rows = [...body!.querySelectorAll('tbody tr')]
        return rows.length > 0 && rows.every((row) => row.querySelectorAll('td')[6]?.textContent.trim() === wanted)
      },
      { body: await page.locator('body').elementHandle(), wanted: name },
    )
    await page.locator('tbody tr').filter({ hasText: said }).waitFor()
  }
  await agent.selectOption({ label: 'another program' })
  await page.getByRole('button', { name: 'Filter', exact: true }).click()
  const other = page.locator('tbody tr').filter({ hasText: 'Is the linker tested?' })
  await other.getByText('another program').waitFor()
  await assertAccessible(page, 'sessions by agent')
  await other.locator('a').first().click()
  await page.locator('dl.facts').getByText('another program').waitFor()
  await page.locator('a[href^="#/turns/"]').first().click()
  await page.locator('dl.facts').getByText('another program').waitFor()
  assert.ok(!(await page.content()).includes('onerror'))
})

test('a score says in words who judged it and how', async () => {
  const { page } = on
  await on.open('/sessions?reward=negative')
  await page.locator('tbody tr a').first().click()
  await page.getByText('Judged by').first().waitFor()
  await page.getByText('a person’s feedback').first().waitFor()
  await page.getByText('How it was judged').first().click()
  await page.getByText('It outranks all others.').first().waitFor()
  await assertAccessible(page, 'judged')
})

/** With one seed in three, both versions give one answer at this temperature, and which ones that are differs by run. */
const differingSeed = async (): Promise<number> => {
  const ask = async (version: number, seed: number): Promise<string> => {
    const response = await fetch(`${on.url()}/v1/dashboard/sample`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        weights: { version },
        prompt: { text: 'What is the capital of France?' },
        temperature: 1.5,
        seed,
      }),
    })
    return [...(await response.text()).matchAll(/"id":(\d+)/g)].map(([, id]) => id).join(' ')
  }
  for (let seed = 1; seed <= 100; seed += 1) if ((await ask(0, seed)) !== (await ask(1, seed))) return seed
  throw new Error('both versions give the same answers with 100 seeds')
}

test('two versions answer a typed prompt, and the tokens in which they differ are marked', async () => {
  const { page } = on
  await on.open('/compare?a=1&b=0')
  await page.getByLabel('Temperature').fill('1.5')
  await page.getByLabel('Seed').fill(String(await differingSeed()))
  await page.getByRole('button', { name: 'Ask both' }).click()
  await page.getByText('tokens that the other answer lacks').waitFor()
  const texts = await Promise.all(
    ['Version 1', 'Version 0 (the base)'].map((name) =>
      page.getByLabel(`Answer of ${name}`).locator('.token').allTextContents(),
    ),
  )
  const [left, right] = texts as [string[], string[]]
  const said = (await page.getByRole('status').filter({ hasText: 'Marked' }).textContent()) ?? ''
  const counts = /lacks: (\d+) of (\d+), and (\d+) of (\d+)\.$/.exec(said)!.slice(1).map(Number)
  assert.deepEqual([counts[1], counts[3]], [left.length, right.length])
  const marked = async (name: string): Promise<number> =>
    page.getByLabel(`Answer of ${name}`).locator('.token.differs').count()
  assert.deepEqual([counts[0], counts[2]], [await marked('Version 1'), await marked('Version 0 (the base)')])
  assert.equal(left.length - counts[0]!, right.length - counts[2]!, 'what is not marked is in both')
  await assertAccessible(page, 'compared')
  await page.getByLabel('The other by').selectOption('1')
  await page.getByRole('button', { name: 'Ask both' }).click()
  await page.getByText(/Both gave the same answer: \d+ equal tokens/).waitFor()
})

test('a recorded turn is asked again from its page, and another is found by its words', async () => {
  const { page } = on
  const turnsOnLog = async (): Promise<number> =>
    ((await (await fetch(`${on.url()}/v1/dashboard/now`)).json()) as { index: { turns: number } }).index.turns
  const before = await turnsOnLog()
  await firstTurn()
  const prompt = (await page.locator('details pre').first().textContent()) ?? ''
  await page.getByRole('link', { name: 'Ask this again in Compare' }).click()
  await page.getByText(/The whole prompt \(\d+ tokens\)/).click()
  assert.equal(await page.locator('details pre').first().textContent(), prompt)
  await page.getByRole('button', { name: 'Ask both' }).click()
  await page.getByText(/equal tokens|tokens that the other answer lacks/).waitFor()
  await page.getByRole('button', { name: 'Choose another' }).click()
  await page.locator('.choices button').first().waitFor()
  await assertAccessible(page, 'prompts')
  await page.getByLabel('Words in it').fill('What is 17 plus 5?')
  await page.getByRole('button', { name: 'Search' }).click()
  await page.locator('.choices button').filter({ hasText: 'What is 17 plus 5?' }).click()
  await page.getByText(/The whole prompt/).click()
  assert.match((await page.locator('details pre').first().textContent()) ?? '', /What is 17 plus 5\?/)
  assert.equal(await turnsOnLog(), before, 'no answer of Compare is recorded')
})

test('the last version of a branch answers like a version', async () => {
  const { page } = on
  await cli(on.env(), 'replay', '--branch', 'other', '--set', 'lr=0.001', '--json')
  await branched(on.url(), 'other')
  await on.open('/compare')
  await page.reload()
  await page.getByLabel('One answer by').selectOption('branch:other')
  await page.getByRole('button', { name: 'Ask both' }).click()
  await page.getByText(/equal tokens|tokens that the other answer lacks/).waitFor()
  await page.getByLabel('Answer of Branch other').locator('.token').first().waitFor()
})

test('no script of a page has failed, and none was refused by its policy', () => {
  assert.deepEqual(on.faults, [])
})
