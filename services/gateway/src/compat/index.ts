import { agentJetRoutes } from './ajet.ts'
import { clawRoutes } from './claw.ts'
import type { ForeignPorts } from './ports.ts'
import type { ForeignRoute } from './route.ts'
import { createWaterLines } from './pending-turns.ts'

/** Registers the routes of all compatible APIs. `stop` ends their background work. */
export const foreignRoutes = (ports: ForeignPorts): { routes: ForeignRoute[]; stop(): Promise<void> } => {
  const waterLines = createWaterLines(ports.log, ports.policy)
  return { routes: [...clawRoutes(ports), ...agentJetRoutes(ports, waterLines)], stop: () => waterLines.stop() }
}
