/** The training server that the settings name. */
import { randomUUID } from 'node:crypto'
import { InstarError } from '@instar/events'
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

/**
 * Null: updates are computed by the embedded engine. Throws `not_available` for a server and an adapter from elsewhere
 * (`baseAdapter`, INSTAR_BASE_ADAPTER).
 */
export const trainingServer = (
  { server, serverModel, serverKey }: Pick<TrainerConfig, 'server' | 'serverModel' | 'serverKey'>,
  baseAdapter: string | null = null,
): TrainingServerOptions | null => {
  if (server === 'embedded') return null
  if (baseAdapter !== null)
    throw new InstarError(
      'not_available',
      `INSTAR_BASE_ADAPTER needs the embedded trainer: the Tinker API has no call that uploads an adapter to ${server}. Merge the adapter into the base's weights instead (PEFT: merge_and_unload), and let both servers load those.`,
      { field: 'INSTAR_BASE_ADAPTER' },
    )
  return {
    connect: (signal) => connectTrainer(server, { key: serverKey, signal }),
    trainer: randomUUID(),
    baseModel: serverModel,
  }
}
