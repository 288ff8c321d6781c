import { agentJetRoutes } from './ajet.ts'
import { clawRoutes } from './claw.ts'
import type { CompatPorts } from './ports.ts'
import type { CompatRoute } from './route.ts'
import { createPendingTurnsReader } from './pending-turns.ts'

/** Registers the routes of all compatible APIs. `stop` ends their background work. */
export const createCompatRoutes = (ports: CompatPorts): { routes: CompatRoute[]; stop(): Promise<void> } => {
  const pendingTurns = createPendingTurnsReader(ports.log, ports.policy, ports.tailWaitMs)
  return { routes: [...clawRoutes(ports), ...agentJetRoutes(ports, pendingTurns)], stop: () => pendingTurns.stop() }
}
