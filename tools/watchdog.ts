/** Loaded into the process of each test file: fails a file that does not end, by an open handle or a missing event. */
const LIMIT_MS = 300_000

setTimeout(() => {
  process.stderr.write(
    `the test file is still running after ${LIMIT_MS / 1000} s; open handles: ${process.getActiveResourcesInfo().join(', ')}\n`,
  )
  process.exit(1)
}, LIMIT_MS).unref()
