/** The plugin's config: `plugins.entries.instar.config`. */
import type { Api } from './host.ts'

export type Settings = {
  /** Ends in /v1. */ baseUrl: string
  apiKey: string | null
  api: Api
  /** Null: derived from the model's context. */ maxTokens: number | null
}

const DEFAULT_URL = 'http://127.0.0.1:30000/v1'
const APIS: readonly Api[] = ['openai-completions', 'openai-responses', 'anthropic-messages']

/** The settings of a config that OpenClaw validated against the manifest's schema. */
export const settingsOf = (config: Readonly<Record<string, unknown>> = {}): Settings => {
  const { baseUrl, apiKey, api, maxTokens } = config
  return {
    baseUrl: `${(typeof baseUrl === 'string' && baseUrl.trim() !== '' ? baseUrl.trim() : DEFAULT_URL).replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`,
    apiKey: typeof apiKey === 'string' && apiKey !== '' ? apiKey : null,
    api: APIS.find((one) => one === api) ?? 'openai-completions',
    maxTokens: typeof maxTokens === 'number' ? maxTokens : null,
  }
}

/** The URL for OpenClaw's transports. Anthropic's transport appends /v1. */
export const transportUrl = ({ api, baseUrl }: Settings): string =>
  api === 'anthropic-messages' ? baseUrl.replace(/\/v1$/, '') : baseUrl

export const bearer = ({ apiKey }: Settings): Record<string, string> =>
  apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }
