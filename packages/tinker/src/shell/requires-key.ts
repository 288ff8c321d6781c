/** Whether a server refuses requests without a key. */
import { InstarError } from '@instar/events/errors'
import { NoResponse, type TinkerHttp } from './http.ts'

/** A server, or a proxy before it, that ends such a connection without a response refuses it too. Throws `trainer_lost`. */
export const requiresKey = async (http: TinkerHttp, signal?: AbortSignal): Promise<boolean> => {
  const path = '/api/v1/get_server_capabilities'
  try {
    const { status } = await http.send({ method: 'GET', path, withoutKey: true, signal })
    return status === 401 || status === 403
  } catch (error) {
    if (!(error instanceof NoResponse)) throw error
    if (error.sent) return true
    throw new InstarError('trainer_lost', error.message, {}, { cause: error })
  }
}
