/** The training server that the settings name. */
import { randomUUID } from 'node:crypto'
import { connectTrainer, type TrainingServer } from '@instar/tinker'
import type { TrainerConfig } from '../../config.ts'

/**
 * How a trainer reaches its server. `connect` is called again after it has failed: a server that is down delays updates, not
 * a start. `trainer`: a random id of this process.
 */
export type TrainingServerOptions = {
  connect(signal: AbortSignal): Promise<TrainingServer>
  trainer: string
  baseModel: string | null
}

/** Null: updates are computed by the embedded engine. */
export const trainingServer = ({
  server,
  serverModel,
  serverKey,
}: Pick<TrainerConfig, 'server' | 'serverModel' | 'serverKey'>): TrainingServerOptions | null =>
  server === 'embedded'
    ? null
    : {
        connect: (signal) => connectTrainer(server, { key: serverKey, signal }),
        trainer: randomUUID(),
        baseModel: serverModel,
      }
