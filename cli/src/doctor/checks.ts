/** The checks of `instar doctor`, by the settings. */
import { logTarget } from '@instar/process'
import type { Config } from '../config.ts'
import { createDeployment } from './deployment.ts'
import type { Check } from './finding.ts'
import { createKafkaChecks } from './kafka-checks.ts'
import {
  databaseCheck,
  dataFolderCheck,
  engineCheck,
  gateCheck,
  gatewayCheck,
  judgeCheck,
  learningCheck,
  logCheck,
  modelCheck,
  nodeCheck,
  trainerCheck,
} from './local-checks.ts'

/** In the order in which they run. Call `close` after the last. */
export const createChecks = (config: Config): { checks: readonly Check[]; close(): Promise<void> } => {
  if (!logTarget(config).manyWriters)
    return {
      checks: [
        nodeCheck,
        dataFolderCheck,
        logCheck,
        modelCheck,
        gateCheck,
        learningCheck,
        engineCheck,
        trainerCheck,
        databaseCheck,
        gatewayCheck,
        judgeCheck,
      ],
      close: async () => undefined,
    }
  const deployment = createDeployment(config)
  return {
    checks: [
      nodeCheck,
      dataFolderCheck,
      ...createKafkaChecks(deployment),
      modelCheck,
      gateCheck,
      learningCheck,
      engineCheck,
      trainerCheck,
      judgeCheck,
    ],
    close: deployment.close,
  }
}
