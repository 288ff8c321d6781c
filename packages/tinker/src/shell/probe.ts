import type { Capabilities, TrainingServer } from '../port.ts'
import type { Futures } from './futures.ts'
import type { TinkerHttp } from './http.ts'

export const probeServer = (
  _server: TrainingServer,
  _futures: Futures,
  _http: TinkerHttp,
  _options: { base: string; rank: number },
  _signal?: AbortSignal,
): Promise<Capabilities> => Promise.reject(new Error('not yet'))
