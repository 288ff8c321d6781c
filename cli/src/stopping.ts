/**
 * SIGINT and SIGTERM as one request to stop. A signal to a process group reaches us more than once (npm and
 * bootstrap.cjs pass theirs on): what follows within two seconds is the same request. A later one is somebody
 * who does not want to wait: the process ends at once.
 */
const SAME_REQUEST_MS = 2000

export const stopSignal = (err: (text: string) => void): AbortSignal => {
  const stop = new AbortController()
  let asked = 0
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => {
      const now = Date.now()
      if (!stop.signal.aborted) {
        asked = now
        stop.abort(signal)
      } else if (now - asked > SAME_REQUEST_MS) {
        err('not waiting any longer\n')
        process.exit(130)
      }
    })
  }
  return stop.signal
}
