/** INSTAR_TRAINER to a `TrainingServer`. */
import { InstarError } from '@instar/events/errors'
import type { TrainingServer, Wire } from './port.ts'
import { Futures, type Patience } from './shell/futures.ts'
import { TinkerHttp, type HttpLimits } from './shell/http.ts'
import { TinkerServer } from './shell/server.ts'
import { decideWire } from './shell/wire.ts'

export type * from './port.ts'
export { capabilitiesMap, rowFactor } from './core/capabilities.ts'
export { parsePath } from './core/paths.ts'
export { together } from './shell/together.ts'
export {
  DEFAULT_WIRE,
  forwardBackwardRequests,
  forwardRequests,
  rowFits,
  loadRequest,
  optimStepRequest,
  saveRequest,
} from './core/requests.ts'

/** Milliseconds and bytes. Defaults: LIMITS. */
export type Limits = HttpLimits & Patience & { heartbeatMs: number; archiveBytesMax: number }

/** A first pass may take minutes, while a server compiles; the SDK polls 45 s at a time. */
export const LIMITS: Limits = {
  connectMs: 5000,
  answerMs: 60_000,
  pollMs: 45_000,
  archiveMs: 600_000,
  submitMs: 300_000,
  resultMs: 3_600_000,
  unloadMs: 60_000,
  heartbeatMs: 10_000,
  archiveBytesMax: 2 ** 30,
}

const SCHEME = /^tinker\+(?=https?:\/\/)/

/** The address of INSTAR_TRAINER (`tinker+http://…`, or a plain `http://…`) for HTTP. */
export const trainerAddress = (address: string): string => {
  const url = address.replace(SCHEME, '')
  if (!/^https?:\/\//.test(url) || !URL.canParse(url))
    throw new InstarError('bad_request', 'INSTAR_TRAINER is not tinker+http://HOST:PORT or tinker+https://HOST', {
      field: 'INSTAR_TRAINER',
    })
  return url
}

/**
 * `wire`: of a binding on the log, so that requests have the recorded bytes; absent: the server is asked. `key`: null
 * for a server without keys.
 */
export const connectTrainer = async (
  address: string,
  { key, wire, limits, signal }: { key: string | null; wire?: Wire; limits?: Partial<Limits>; signal?: AbortSignal },
): Promise<TrainingServer> => {
  const all = { ...LIMITS, ...limits }
  const http = new TinkerHttp(trainerAddress(address), key, all)
  const futures = new Futures(http, all)
  try {
    return new TinkerServer({
      http,
      futures,
      patience: all,
      wire: wire ?? (await decideWire(futures, http, signal)),
      heartbeatMs: all.heartbeatMs,
      archiveBytesMax: all.archiveBytesMax,
    })
  } catch (error) {
    futures.close()
    await http.close()
    throw error
  }
}
