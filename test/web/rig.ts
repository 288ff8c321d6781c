/** A page of Chromium at a gateway: one that the test starts, or one that runs elsewhere (INSTAR_WEB_URL). */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import type { APIResponse, BrowserContext, Page, Route } from 'playwright-core'
import { ROOT } from '../../tools/tree.ts'

/** The standard output of `instar`. */
export const cli = async (env: Readonly<Record<string, string>>, ...args: string[]): Promise<string> =>
  (
    await promisify(execFile)(process.execPath, [path.join(ROOT, 'cli/instar.cjs'), ...args], {
      env: { ...process.env, ...env },
    })
  ).stdout

/** A new page that notes errors of its scripts and of its policy in `faults`. */
export const watchedPage = async (context: BrowserContext, faults: string[]): Promise<Page> => {
  const page = await context.newPage()
  page.on('pageerror', (error) => faults.push(error.message))
  page.on('console', (message) => {
    // A response with an error status is logged by the browser itself, and shown by the page.
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) faults.push(message.text())
  })
  return page
}

/** Requests to one gateway. `turn`: of the answer. */
export const poster =
  (url: () => string) =>
  async (route: string, body: unknown): Promise<Record<string, unknown>> => {
    const response = await fetch(`${url()}${route}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    assert.ok(response.ok, `${route} ${response.status}`)
    const turn = response.headers.get('x-instar-turn-id')
    return { ...((await response.json()) as Record<string, unknown>), turn }
  }

type Post = ReturnType<typeof poster>

/** 24 scored turns of three people, so that an update follows. */
export const converse = async (post: Post, user: string): Promise<void> => {
  for (let n = 0; n < 24; n += 1) {
    const answer = (await post('/v1/chat/completions', {
      model: 'policy',
      user: `${user} ${n % 3}`,
      messages: [{ role: 'user', content: `What is ${n} plus 5?` }],
    })) as { id: string; choices: [{ message: { content: string } }] }
    const formatted = /\*\*|boxed|^1\./.test(answer.choices[0].message.content)
    await post('/v1/feedback', { turn_id: answer.id, value: !formatted, comment: 'Answer in plain text.' })
  }
}

/** Asks for a path of `/v1/dashboard` until it holds: a page that is opened then has it. */
export const until = async <T>(url: string, address: string, holds: (found: T) => boolean): Promise<void> => {
  while (!holds((await (await fetch(`${url}/v1/dashboard/${address}`)).json()) as T));
}

/** Asks until the read model has version 1 and the turns of its batch. However long its update takes, no page waits for it. */
export const published = async (url: string): Promise<void> => {
  await until<{ versions?: { version: number }[] }>(
    url,
    'versions',
    ({ versions }) => versions?.some(({ version }) => version === 1) === true,
  )
  await until<{ turns?: { used: boolean }[] }>(
    url,
    'versions/1',
    ({ turns }) => turns?.some(({ used }) => used) === true,
  )
}

/** Asks until the read model has the branch and a version of it, which are records of two topics. */
export const branched = (url: string, name: string): Promise<void> =>
  until<{ branches?: { name: string; version: number }[] }>(
    url,
    'versions',
    ({ branches }) => branches?.some((branch) => branch.name === name && branch.version > 0) === true,
  )

/** Asks until the read model has the turn and all `candidates` of its request: a page that is opened then shows them. */
export const projected = async (url: string, turn: string, candidates = 1): Promise<void> => {
  for (;;) {
    const response = await fetch(`${url}/v1/dashboard/turns/${turn}`)
    if (response.ok && ((await response.json()) as { group: unknown[] }).group.length >= candidates) return
  }
}

/** The gateway's answer to a request of the page, whole also where the page has it already (status 304 has no body). */
export const answerTo = (route: Route): Promise<APIResponse> =>
  route.fetch({ headers: { ...route.request().headers(), 'if-none-match': '' } })

/** Answers with other data. The mark of the gateway's own is left out, by which the page would keep these for the same. */
export const answerWith = (route: Route, response: APIResponse, json: unknown): Promise<void> => {
  const { etag: _, ...headers } = response.headers()
  return route.fulfill({ response, headers, json })
}

export const openPage = async (page: Page, url: string, address: string): Promise<void> => {
  await page.goto(`${url}/#${address}`)
  await page.locator('h1').first().waitFor()
}
