/** What each gateway says of itself. */
import { InstarError } from '@instar/events/errors'
import { fine, note, unsure, wrong, type Finding } from './finding.ts'
import type { GatewayFound } from './stack.ts'

/** A gateway that answers, and not to us: it works, and is not looked at. Null: another fault. */
export const refusedBy = (address: string, fault: unknown): Finding | null =>
  fault instanceof InstarError && (fault.code === 'invalid_api_key' || fault.code === 'missing_scope')
    ? unsure(
        `${address} answers, and says no more without an API key: ${fault.message}`,
        'Set INSTAR_KEY to a key with the scope admin (`instar keys add NAME --scopes admin`).',
      )
    : null

/** `url`: where INSTAR_HOST and INSTAR_PORT say that they are; behind a name there may be several. */
export const gatewaysFound = (gateways: readonly GatewayFound[], url: string): readonly Finding[] => {
  const answering = gateways.filter(({ address, status, fault }) => status !== null || refusedBy(address, fault))
  if (answering.length === 0)
    return [
      unsure(
        `no gateway answers at ${url}`,
        'If one should: `docker compose up -d gateway`; INSTAR_HOST and INSTAR_PORT say where.',
      ),
    ]
  return gateways.map(({ address, status, fault }) => {
    if (!status)
      return (
        refusedBy(address, fault) ??
        note(
          `${address}: ${String(fault?.message)}`,
          "Another gateway answers. See this one's /health/ready and what it logs.",
        )
      )
    const said = `${address} serves version ${String(status.serving)}${status.frozen ? ', learning is frozen' : ''}, ${status.log.pending} answers wait for the log`
    if (status.status !== 'ready')
      return wrong(
        `${said}; it is ${status.status}: ${status.problem?.message ?? 'see /health/ready'}`,
        'See what it logs; while the log or the engine is away it holds requests and comes back by itself.',
      )
    if (status.serving !== status.head)
      return note(
        `${said}, the head is ${status.head}`,
        'It fetches the new version; if it stays so, see what it logs.',
      )
    return fine(said)
  })
}
