/** Whether a server refuses requests without a key. */
import type { TinkerHttp } from './http.ts'

export const requiresKey = async (http: TinkerHttp, signal?: AbortSignal): Promise<boolean> => {
  const path = '/api/v1/get_server_capabilities'
  const { status } = await http.send({ method: 'GET', path, withoutKey: true, signal })
  return status === 401 || status === 403
}
