/**
 * Turns SIGINT, SIGTERM and SIGHUP into one abort signal. A signal to a process group arrives more than once, since npm
 * and bootstrap.cjs forward theirs: a signal within SAME_REQUEST_MS of the first is ignored. A later one ends the
 * process at once, with exit code 130.
 */
const SAME_REQUEST_MS = 2000

export const createStopSignal = (err: (text: string) => void): AbortSignal => {
  const stop = new AbortController()
  let requestedAt = 0
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      const now = Date.now()
      if (!stop.signal.aborted) {
        requestedAt = now
        stop.abort(signal)
      } else if (now - requestedAt > SAME_REQUEST_MS) {
        err('second stop signal: ended without waiting for the shutdown\n')
        process.exit(130)
      }
    })
  }
  return stop.signal
}
