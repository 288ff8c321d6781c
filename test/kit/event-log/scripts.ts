/** Processes of a test that print lines, and are killed by what they print. */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface, type Interface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export type Printing = { child: ChildProcess; lines: Interface }

/** A script of `processes`. */
export const startScript = (script: string, ...args: string[]): Printing => {
  const path = fileURLToPath(new URL(`processes/${script}.ts`, import.meta.url))
  const child = spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  return { child, lines: createInterface({ input: child.stdout }) }
}

/** Kills the process at the first line that matches. Fails if it ends before. */
export const killAt = async ({ child, lines }: Printing, step: RegExp): Promise<void> => {
  for await (const line of lines) {
    if (!step.test(line)) continue
    child.kill('SIGKILL')
    break
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
  assert.equal(child.signalCode, 'SIGKILL')
}

export const linesOf = async ({ lines }: Printing): Promise<string[]> => {
  const all: string[] = []
  for await (const line of lines) all.push(line)
  return all
}
