/** The settings of the CLI: options that override variables, and the address of the gateway. */
import { InstarError } from '@instar/events/errors'
import { logTarget, type Settings } from '@instar/process'

export type { Environment } from '@instar/process'
export type Config = Settings

/** Options that override a variable of the environment. */
export const OVERRIDES = {
  port: { variable: 'INSTAR_PORT', summary: 'port of the gateway' },
  host: { variable: 'INSTAR_HOST', summary: 'address of the gateway' },
  data: { variable: 'INSTAR_DATA', summary: 'folder of the log and the database' },
  archive: {
    variable: 'INSTAR_ARCHIVE',
    summary: 'archive of what was cut from the log: a folder, or s3://bucket/prefix',
  },
  model: { variable: 'INSTAR_MODEL', summary: 'Hugging Face folder or .gguf file' },
} as const

/** The URL of the gateway for a client on this machine. */
export const gatewayUrl = ({ host, port }: Pick<Config, 'host' | 'port'>): string => {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`
}

/** Throws `not_available` unless the log and the engine are the embedded ones. */
export const requireEmbedded = (config: Pick<Config, 'log' | 'data' | 'engine'>): void => {
  if (logTarget(config).manyWriters)
    throw new InstarError(
      'not_available',
      `This command needs the embedded log; INSTAR_LOG is ${config.log}. Unset INSTAR_LOG.`,
      { field: 'INSTAR_LOG' },
    )
  if (config.engine !== 'embedded')
    throw new InstarError(
      'not_available',
      `This command needs the embedded engine; INSTAR_ENGINE is ${config.engine}. Unset INSTAR_ENGINE.`,
      { field: 'INSTAR_ENGINE' },
    )
}
