/** Installs the peers of the gateway into .cache for the bench. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

export const UNDICI = '7.30.2'
export const PORTKEY = '1.15.2'
/** With newer versions every stream of Portkey's gateway fails. */
const HONO_SERVER = '1.14.1'
export const LITELLM = '1.106.2'

type LogLine = (line: string) => void

/**
 * `program`: path in the folder. Resolves with its full path; null, with the reason logged, if it cannot be installed.
 */
const installOnce = async (
  name: string,
  folder: string,
  program: string,
  install: (folder: string) => Promise<unknown>,
  logLine: LogLine,
): Promise<string | null> => {
  const path = join(folder, program)
  if (existsSync(path)) return path
  try {
    logLine(`installing ${name} into ${folder} …`)
    await mkdir(folder, { recursive: true })
    await install(folder)
    return path
  } catch (cause) {
    logLine(`${name} cannot be installed and is left out: ${cause instanceof Error ? cause.message : String(cause)}`)
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

export const installUndici = (cache: string, logLine: LogLine): Promise<string | null> =>
  installOnce(
    `undici ${UNDICI}`,
    join(cache, `undici-${UNDICI}`),
    'node_modules/undici/index.js',
    npm([`undici@${UNDICI}`]),
    logLine,
  )

export const installPortkey = (cache: string, logLine: LogLine): Promise<string | null> =>
  installOnce(
    `Portkey's gateway ${PORTKEY}`,
    join(cache, `portkey-gateway-${PORTKEY}`),
    'node_modules/@portkey-ai/gateway/build/start-server.js',
    npm([`@portkey-ai/gateway@${PORTKEY}`, `@hono/node-server@${HONO_SERVER}`], { '@hono/node-server': HONO_SERVER }),
    logLine,
  )

export const installLitellm = (cache: string, logLine: LogLine): Promise<string | null> =>
  installOnce(
    `LiteLLM ${LITELLM}`,
    join(cache, `litellm-${LITELLM}`),
    'bin/litellm',
    async (folder) => {
      await run('python3', ['-m', 'venv', folder], { timeout: 120_000 })
      await run(join(folder, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `litellm[proxy]==${LITELLM}`], {
        timeout: 900_000,
      })
    },
    logLine,
  )
