/** Runs test files with Node's test runner and prints their results; a signal stops them. */
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

type Options = Omit<NonNullable<Parameters<typeof run>[0]>, 'files' | 'signal'>
type Reporter = Parameters<ReturnType<typeof run>['compose']>[0]

/** Resolves with whether all tests passed. After a signal the exit code is set to 130. */
export const runTests = async (
  files: readonly string[],
  options: Options = {},
  reporter: Reporter = spec(),
): Promise<boolean> => {
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => {
      interrupted.abort()
      process.exitCode = 130
    })
  const events = run({ ...options, files, signal: interrupted.signal })
  let passed = false
  events.on('test:summary', ({ file, success }) => {
    if (file === undefined) passed = success
  })
  for await (const text of events.compose(reporter)) process.stdout.write(text as string)
  return passed
}
