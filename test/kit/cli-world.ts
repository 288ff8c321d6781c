/** The CLI as a function: what it prints and its exit code, in a folder of its own. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { runCli } from '../../cli/src/cli.ts'
import type { Environment } from '../../cli/src/config.ts'

export type Said = { code: number; out: string; err: string; json: unknown }

export const folder = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'instar-cli-'))
  after(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** `json`: the last line of what was printed, if it is JSON. */
export const instar = async (args: readonly string[], env: Environment, cwd = '/'): Promise<Said> => {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    env,
    cwd,
    out: (text) => (out += text),
    err: (text) => (err += text),
    terminal: false,
    stop: new AbortController().signal,
  })
  const last = out.trimEnd().split('\n').at(-1) ?? ''
  return { code, out, err, json: /^[[{"\d]/.test(last) && args.includes('--json') ? JSON.parse(last) : undefined }
}
