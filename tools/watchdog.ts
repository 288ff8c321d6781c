/** Loaded into each test file's process: one that does not end (a handle left open, an event that never comes) fails. */
const LIMIT_MS = 180_000

setTimeout(() => {
  process.stderr.write(
    `still running after ${LIMIT_MS / 1000} s; open: ${process.getActiveResourcesInfo().join(', ')}\n`,
  )
  process.exit(1)
}, LIMIT_MS).unref()
