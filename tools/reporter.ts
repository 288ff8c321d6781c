/**
 * A test reporter for many files: one line for each file, each failed test with its error and the output of its file,
 * and the closing lines of Node's TAP reporter (`# tests 12` ...).
 */
import { relative } from 'node:path'
import { inspect } from 'node:util'
import type { TestEvent } from 'node:test/reporters'
import { ROOT } from './tree.ts'

/** `failureType` is missing in the types of Node. */
type Failure = Error & { failureType?: string }

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
const indent = (text: string): string => text.replace(/^/gm, '    ')

/** The cause is the error that the test threw; its wrapper has no other information. */
function errorText(error: unknown): string {
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error
  return inspect(cause, { depth: 5, colors: false })
}

export async function* compact(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const outputs = new Map<string, string>()
  const failures: string[] = []
  let files = 0
  function* outputOf(file: string): Generator<string> {
    const text = outputs.get(file)
    if (text !== undefined) yield indent(`output of the file:\n${text.trimEnd()}`) + '\n'
    outputs.delete(file)
  }
  for await (const { type, data } of events) {
    if (type === 'test:stdout' || type === 'test:stderr') {
      outputs.set(data.file, (outputs.get(data.file) ?? '') + data.message)
    } else if (type === 'test:fail' && (data.details.error as Failure).failureType !== 'subtestsFailed') {
      const position = `${relative(ROOT, data.file ?? '')}:${data.line ?? 0}`
      failures.push(`${position} ${data.name}`)
      yield `FAILED ${position} ${data.name}\n${indent(errorText(data.details.error))}\n`
      if (data.name === data.file) yield* outputOf(data.file)
    } else if (type === 'test:summary' && data.file !== undefined) {
      const { tests } = data.counts
      yield `${data.success ? 'ok' : 'FAILED'} ${relative(ROOT, data.file)} (${tests} tests, ${seconds(data.duration_ms)})\n`
      if (!data.success) yield* outputOf(data.file)
      outputs.delete(data.file)
      files++
    } else if (type === 'test:summary') {
      const { tests, suites, passed, cancelled, skipped, todo } = data.counts
      if (failures.length > 0) yield `\nfailed:\n${failures.map((name) => `  ${name}\n`).join('')}`
      yield `\n# files ${files}\n# tests ${tests}\n# suites ${suites}\n# pass ${passed}\n# fail ${tests - passed - cancelled - skipped - todo}\n# cancelled ${cancelled}\n# skipped ${skipped}\n# todo ${todo}\n# duration_ms ${data.duration_ms.toFixed(0)}\n`
    }
  }
}
