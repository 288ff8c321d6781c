/** Findings about gateways, from their /admin/status. */
import { InstarError } from '@instar/events/errors'
import { note, ok, unsure, wrong, type Finding } from './finding.ts'
import type { GatewayFound } from './deployment.ts'

/** The finding of a gateway that answers but refuses the API key. Null for another error. */
export const refusedKeyFinding = (address: string, error: unknown): Finding | null =>
  error instanceof InstarError && (error.code === 'invalid_api_key' || error.code === 'missing_scope')
    ? unsure(
        `${address} answers, but its status needs an API key: ${error.message}`,
        'Set INSTAR_KEY to a key with the scope admin (`instar keys add NAME --scopes admin`).',
      )
    : null

/** `url`: of INSTAR_HOST and INSTAR_PORT; its host name may resolve to several gateways. */
export const gatewayFindings = (gateways: readonly GatewayFound[], url: string): readonly Finding[] => {
  const answering = gateways.filter(
    ({ address, status, error }) => status !== null || refusedKeyFinding(address, error),
  )
  if (answering.length === 0)
    return [
      unsure(
        `no gateway answers at ${url}`,
        'If one should run: `docker compose up -d gateway`. INSTAR_HOST and INSTAR_PORT give its address.',
      ),
    ]
  return gateways.map(({ address, status, error }) => {
    if (!status)
      return (
        refusedKeyFinding(address, error) ??
        note(
          `${address}: ${String(error?.message)}`,
          'Another gateway answers. Check the /health/ready and the log of this one.',
        )
      )
    const found = `${address} serves version ${String(status.serving)}${status.frozen ? ', learning is frozen' : ''}, ${status.log.pending} answers are waiting for the log`
    if (status.status !== 'ready')
      return wrong(
        `${found}; it is ${status.status}: ${status.problem?.message ?? 'see /health/ready'}`,
        'Read its log. While the log or the engine is unavailable, the gateway holds requests; it recovers by itself.',
      )
    if (status.serving !== status.head)
      return note(`${found}, the head is ${status.head}`, 'It loads the new version. If this persists, read its log.')
    return ok(found)
  })
}
