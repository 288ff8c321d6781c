/**
 * A reporter for many files: one line for each file that passed, every failed test with its error and what
 * its file printed, and the closing lines as Node's own reporters give them (`# tests 12` ...).
 */
import { relative } from 'node:path'
import { inspect } from 'node:util'
import type { TestEvent } from 'node:test/reporters'
import { ROOT } from './tree.ts'

/** Is there; the types of Node leave it out. */
type Failure = Error & { failureType?: string }

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
const indent = (text: string): string => text.replace(/^/gm, '    ')

/** The cause is what the test threw; the wrapper adds nothing. */
function reason(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return inspect(cause, { depth: 5, colors: false })
}

export async function* compact(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const printed = new Map<string, string>()
  const failures: string[] = []
  let done = 0
  function* output(file: string): Generator<string> {
    const text = printed.get(file)
    if (text !== undefined) yield indent(`printed by it:\n${text.trimEnd()}`) + '\n'
    printed.delete(file)
  }
  for await (const { type, data } of events) {
    if (type === 'test:stdout' || type === 'test:stderr') {
      printed.set(data.file, (printed.get(data.file) ?? '') + data.message)
    } else if (type === 'test:fail' && (data.details.error as Failure).failureType !== 'subtestsFailed') {
      const where = `${relative(ROOT, data.file ?? '')}:${data.line ?? 0}`
      failures.push(`${where} ${data.name}`)
      yield `FAILED ${where} ${data.name}\n${indent(reason(data.details.error))}\n`
      if (data.name === data.file) yield* output(data.file)
    } else if (type === 'test:summary' && data.file !== undefined) {
      const { tests } = data.counts
      const bad = !data.success
      yield `${bad ? 'FAILED' : 'ok'} ${relative(ROOT, data.file)} (${tests} tests, ${seconds(data.duration_ms)})\n`
      if (bad) yield* output(data.file)
      printed.delete(data.file)
      done++
    } else if (type === 'test:summary') {
      const { tests, suites, passed, cancelled, skipped, todo } = data.counts
      if (failures.length > 0) yield `\nfailed:\n${failures.map((name) => `  ${name}\n`).join('')}`
      yield `\n# files ${done}\n# tests ${tests}\n# suites ${suites}\n# pass ${passed}\n# fail ${tests - passed - cancelled - skipped - todo}\n# cancelled ${cancelled}\n# skipped ${skipped}\n# todo ${todo}\n# duration_ms ${data.duration_ms.toFixed(0)}\n`
    }
  }
}
