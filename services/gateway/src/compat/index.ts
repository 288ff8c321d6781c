import { agentJetRoutes } from './ajet.ts'
import { clawRoutes } from './claw.ts'
import type { ForeignPorts } from './ports.ts'
import type { ForeignRoute } from './route.ts'
import { createWaterLines } from './pending-turns.ts'

/** All of them, and what is to be stopped with the gateway. */
export const foreignRoutes = (ports: ForeignPorts): { routes: ForeignRoute[]; stop(): Promise<void> } => {
  const waterLines = createWaterLines(ports.log, ports.policy)
  return { routes: [...clawRoutes(ports), ...agentJetRoutes(ports, waterLines)], stop: () => waterLines.stop() }
}
