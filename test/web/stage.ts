/** A pipeline of its own for a file of browser tests, and a page of Chromium at it. */
import { rmSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { up } from '../kit/up.ts'
import { launch } from './browser.ts'
import { cli, openPage, poster, watchedPage } from './rig.ts'

type Started = Awaited<ReturnType<typeof up>>

export type Stage = {
  browser: Browser
  context: BrowserContext
  page: Page
  /** Errors of the page's scripts and of its policy. */
  faults: string[]
  data: string
  url: () => string
  env: () => Record<string, string>
  post: ReturnType<typeof poster>
  open(address: string): Promise<void>
  /** The token of admin commands. */
  adminToken(): Promise<string>
  /** A session of `instar open` in the page. */
  signIn(): Promise<void>
  /** Ends the gateway's process; `again`: starts it at the same port. */
  stop(): Promise<void>
  again(): Promise<void>
  close(): Promise<void>
}

/** `args`: of `instar up`. */
export const stage = async (args: readonly string[] = []): Promise<Stage> => {
  const folder = await mkdtemp(path.join(tmpdir(), 'instar-web-'))
  const data = path.join(folder, 'data')
  let started: Started = await up(data, args)
  const url = (): string => started.ready.url
  const browser = await launch()
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } })
  context.setDefaultTimeout(60_000)
  const faults: string[] = []
  const page = await watchedPage(context, faults)
  const stop = async (): Promise<void> => {
    started.child.kill('SIGTERM')
    await started.ended
  }
  return {
    browser,
    context,
    page,
    faults,
    data,
    url,
    env: () => started.env,
    post: poster(url),
    open: (address) => openPage(page, url(), address),
    adminToken: async () => (await readFile(path.join(data, 'admin.token'), 'utf8')).trim(),
    async signIn() {
      const link = JSON.parse(await cli(started.env, 'open', '--json')) as { url: string }
      await page.goto(link.url)
      await page.getByRole('button', { name: 'Sign out' }).waitFor()
    },
    stop,
    async again() {
      started = await up(data, ['--port', new URL(url()).port, ...args])
    },
    async close() {
      await browser.close()
      await stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
