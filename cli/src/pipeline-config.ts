/** The configuration of `startPipeline`, as plain data: a part of it is sent to the services' thread. */
import type { GatewaySettings } from '@instar/gateway'
import type { RemoteSettings } from '@instar/gateway/open-remote'
import type { EngineChoice } from '@instar/policy'
import type { LogAt, Settings, SettingValue } from '@instar/process'
import type { publisherConfig } from '@instar/publisher'
import type { scorerConfig } from '@instar/scorer'
import type { trainerConfig } from '@instar/trainer'

export type PipelineConfig = {
  /** The data folder. */
  data: string
  /** The folder of the files of checkpoints; absent: none are used. */
  checkpoints?: string
  /** When the pipeline writes them itself; absent: never. */
  checkpointing?: Settings['checkpointing']
  /** The log of INSTAR_LOG. Default: the embedded log. */
  log?: LogAt
  /** A Hugging Face folder or a .gguf file. */
  model: string
  /** The folder of a LoRA adapter with which a new line starts; null or absent: it starts with the model alone. */
  baseAdapter?: string | null
  /** The serving engine. */
  engine: EngineChoice
  /**
   * An engine behind HTTP, which serves instead of `engine`. Learning needs the weights in `model`; without them turns
   * are captured only.
   */
  remote?: RemoteSettings
  /** The engine that computes updates and measures candidates. Default: `engine`. */
  learnEngine?: EngineChoice
  /** URL of a PostgreSQL; null: the embedded one; false: none. */
  database: string | null | false
  /** Password of the reader's role; null or absent: derived from the URL's password. */
  databaseReaderPassword?: string | null
  /** INSTAR_PG_BIN: the folder of `postgres` and `initdb`. Default: the npm package's. */
  postgresPrograms?: string | null
  gateway: GatewaySettings
  scorer: Parameters<typeof scorerConfig.parse>[0]
  trainer: Parameters<typeof trainerConfig.parse>[0]
  publisher: Parameters<typeof publisherConfig.parse>[0]
  /** The values of those three with their origins, whose changes are recorded on the log. Default: not recorded. */
  values?: readonly SettingValue[]
}
