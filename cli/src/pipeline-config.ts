/** What `startPipeline` is given, as plain data: a part of it goes to the thread of the services. */
import type { GatewaySettings } from '@instar/gateway'
import type { RemoteSettings } from '@instar/gateway/open-remote'
import type { EngineChoice } from '@instar/policy'
import type { Settings } from '@instar/process'
import type { publisherConfig } from '@instar/publisher'
import type { scorerConfig } from '@instar/scorer'
import type { trainerConfig } from '@instar/trainer'

export type PipelineConfig = {
  data: string
  /** The log that INSTAR_LOG names; default: the embedded one. */
  log?: Pick<Settings, 'log' | 'partitions' | 'registry' | 'registryUser' | 'kafka'>
  model: string
  /** What serves. */
  engine: EngineChoice
  /**
   * What serves in its place: an engine behind HTTP. Learning then needs the weights in `model`; else turns are
   * captured only.
   */
  remote?: RemoteSettings
  /** What learns and measures candidates; default: what serves. */
  learnEngine?: EngineChoice
  /** A database of one's own; null: the embedded one. False: none (the demo). */
  database: string | null | false
  /** Of its reader; null or absent: what follows from the URL's. */
  databaseReaderPassword?: string | null
  /** INSTAR_PG_BIN: the folder of `postgres` and `initdb`, instead of the npm package's. */
  postgresPrograms?: string | null
  gateway: GatewaySettings
  scorer: Parameters<typeof scorerConfig.parse>[0]
  trainer: Parameters<typeof trainerConfig.parse>[0]
  publisher: Parameters<typeof publisherConfig.parse>[0]
}
