/** Whether a server refuses requests without a key. */
import { InstarError } from '@instar/events/errors'
import { isTransient } from '../core/refusals.ts'
import { NoResponse, type TinkerHttp } from './http.ts'

/**
 * A server, or a proxy before it, that ends such a connection without a response refuses it too. Null: a busy server, or one that
 * does not answer within the limit, has not said. Throws `trainer_lost`.
 */
export const requiresKey = async (http: TinkerHttp, signal?: AbortSignal): Promise<boolean | null> => {
  const path = '/api/v1/get_server_capabilities'
  try {
    const { status } = await http.send({ method: 'GET', path, withoutKey: true, signal })
    return isTransient(status) ? null : status === 401 || status === 403
  } catch (error) {
    if (!(error instanceof NoResponse)) throw error
    if (error.timedOut) return null
    if (error.sent) return true
    throw new InstarError('trainer_lost', error.message, {}, { cause: error })
  }
}
