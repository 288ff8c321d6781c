/** What the gateway is measured against, installed for the bench alone into .cache. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

export const UNDICI = '7.30.2'
export const PORTKEY = '1.15.2'
/** With a newer one each of Portkey's streams is an error. */
const HONO_SERVER = '1.14.1'
export const LITELLM = '1.106.2'

type Say = (line: string) => void

/** `made`: what is there once it is installed. Null, with the reason said, where it cannot be had. */
const installed = async (
  name: string,
  folder: string,
  made: string,
  install: (folder: string) => Promise<unknown>,
  say: Say,
): Promise<string | null> => {
  const there = join(folder, made)
  if (existsSync(there)) return there
  try {
    say(`installing ${name} into ${folder}, for the bench alone …`)
    await mkdir(folder, { recursive: true })
    await install(folder)
    return there
  } catch (cause) {
    say(`without ${name}: ${cause instanceof Error ? cause.message : String(cause)}`)
    return null
  }
}

const run = promisify(execFile)

const npm =
  (packages: readonly string[], overrides: Readonly<Record<string, string>> = {}) =>
  async (folder: string): Promise<void> => {
    await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, overrides }))
    await run('npm', ['install', '--silent', '--no-audit', '--no-fund', '--save-exact', ...packages], {
      cwd: folder,
      timeout: 300_000,
    })
  }

export const installUndici = (cache: string, say: Say): Promise<string | null> =>
  installed(
    `undici ${UNDICI}`,
    join(cache, `undici-${UNDICI}`),
    'node_modules/undici/index.js',
    npm([`undici@${UNDICI}`]),
    say,
  )

export const installPortkey = (cache: string, say: Say): Promise<string | null> =>
  installed(
    `Portkey's gateway ${PORTKEY}`,
    join(cache, `portkey-gateway-${PORTKEY}`),
    'node_modules/@portkey-ai/gateway/build/start-server.js',
    npm([`@portkey-ai/gateway@${PORTKEY}`, `@hono/node-server@${HONO_SERVER}`], { '@hono/node-server': HONO_SERVER }),
    say,
  )

export const installLitellm = (cache: string, say: Say): Promise<string | null> =>
  installed(
    `LiteLLM ${LITELLM}`,
    join(cache, `litellm-${LITELLM}`),
    'bin/litellm',
    async (folder) => {
      await run('python3', ['-m', 'venv', folder], { timeout: 120_000 })
      await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `litellm[proxy]==${LITELLM}`], {
        timeout: 900_000,
      })
    },
    say,
  )
