/** What a trainer on a Tinker server works with. */
import type { BatchSealed, BatchState, TrainerBinding } from '@instar/events'
import type { EventLog, TurnReader } from '@instar/log'
import type { Model } from '@instar/engine/port'
import type { Capabilities, TrainingServer } from '@instar/tinker/port'
import type { TrainerState } from '../../core/state.ts'

/** Reads turns and blobs; enough to make every request again from the log. */
export type ReadPorts = { log: Pick<EventLog, 'read'> & EventLog; reader: TurnReader; model: Model }

export type RemotePorts = ReadPorts & {
  server: TrainingServer
  now: () => number
  signal: AbortSignal
  onProgress: (share: number) => void
}

/** A batch in work on a bound model. */
export type RemoteWork = { state: TrainerState; batch: BatchState; binding: TrainerBinding }

/** Whether the passes of a batch on a bound server have one row for the turns that extend each other; from records alone. */
export const sharesRows = ({ settings }: Pick<BatchSealed, 'settings'>, bound: { capabilities: string }): boolean =>
  settings.sharedPrefixes === 1 && capabilitiesOf(bound).sharesPrefixes === true

/** The recorded capabilities of a binding. */
export const capabilitiesOf = ({ capabilities }: { capabilities: string }): Capabilities =>
  JSON.parse(capabilities) as Capabilities
