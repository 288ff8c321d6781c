/** The environment as the CLI sees it: which options stand for which variable, and where the gateway is. */
import { InstarError } from '@instar/events/errors'
import { logTarget, type Settings } from '@instar/process'

export type { Environment } from '@instar/process'
export type Config = Settings

/** Options that the commands share with the environment, as parseArgs takes them, and the variable of each. */
export const OVERRIDES = {
  port: { variable: 'INSTAR_PORT', what: 'port of the gateway' },
  host: { variable: 'INSTAR_HOST', what: 'address of the gateway' },
  data: { variable: 'INSTAR_DATA', what: 'folder of the log and the database' },
  model: { variable: 'INSTAR_MODEL', what: 'Hugging Face folder or .gguf file' },
} as const

/** Where a gateway of this configuration answers, for a client on this machine. */
export const gatewayUrl = ({ host, port: number }: Pick<Config, 'host' | 'port'>): string => {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${number}`
}

/** What the command does on the embedded log and engine alone. */
export const requireEmbedded = (config: Pick<Config, 'log' | 'data' | 'engine'>): void => {
  if (logTarget(config).manyWriters)
    throw new InstarError('not_available', `INSTAR_LOG=${config.log}: this command is for the embedded log only.`, {
      field: 'INSTAR_LOG',
    })
  if (config.engine !== 'embedded')
    throw new InstarError(
      'not_available',
      `INSTAR_ENGINE=${config.engine}: this command is for the embedded engine only.`,
      { field: 'INSTAR_ENGINE' },
    )
}
