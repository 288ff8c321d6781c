/** What the suites share: test files by Node's runner, told as they go; a signal stops them. */
import { run } from 'node:test'
import { spec } from 'node:test/reporters'

type Options = Omit<NonNullable<Parameters<typeof run>[0]>, 'files' | 'signal'>
type Reporter = Parameters<ReturnType<typeof run>['compose']>[0]

/** Whether all passed. An exit code of 130 is set where a signal came. */
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
