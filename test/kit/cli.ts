/** Runs the CLI as a function and returns its output and its exit code. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after } from 'node:test'
import { runCli } from '../../cli/src/cli.ts'
import type { Environment } from '../../cli/src/config.ts'

/** `json`: the last line of standard output, if `--json` was given and it is JSON. */
export type CliResult = { code: number; out: string; err: string; json: unknown }

/** A temporary folder, which is deleted after the tests of the file. */
export const folder = (): string => {
  const path = mkdtempSync(join(tmpdir(), 'instar-cli-'))
  after(() => rmSync(path, { recursive: true, force: true }))
  return path
}

export const instar = async (args: readonly string[], env: Environment, cwd = '/', input = ''): Promise<CliResult> => {
  let out = ''
  let err = ''
  const code = await runCli(args, {
    env,
    cwd,
    input: Readable.from([Buffer.from(input)]),
    out: (text) => (out += text),
    err: (text) => (err += text),
    terminal: false,
    stop: new AbortController().signal,
  })
  const last = out.trimEnd().split('\n').at(-1) ?? ''
  return { code, out, err, json: /^[[{"\d]/.test(last) && args.includes('--json') ? JSON.parse(last) : undefined }
}
