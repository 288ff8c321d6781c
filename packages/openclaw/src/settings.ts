/** The plugin's config: `plugins.entries.instar.config`. */
import type { Api } from './host.ts'

export type Settings = {
  /** Ends in /v1. */ baseUrl: string
  apiKey: string | null
  api: Api
  /** Null: by the model's context. */ maxTokens: number | null
}

const DEFAULT = 'http://127.0.0.1:30000/v1'
const APIS: readonly Api[] = ['openai-completions', 'openai-responses', 'anthropic-messages']

/** OpenClaw has held the config against the manifest's schema before. */
export const settingsOf = (config: Readonly<Record<string, unknown>> = {}): Settings => {
  const { baseUrl, apiKey, api, maxTokens } = config
  return {
    baseUrl: `${(typeof baseUrl === 'string' && baseUrl.trim() !== '' ? baseUrl.trim() : DEFAULT).replace(/\/+$/, '').replace(/\/v1$/, '')}/v1`,
    apiKey: typeof apiKey === 'string' && apiKey !== '' ? apiKey : null,
    api: APIS.find((one) => one === api) ?? 'openai-completions',
    maxTokens: typeof maxTokens === 'number' ? maxTokens : null,
  }
}

/** Anthropic's transport adds /v1 itself. */
export const transportUrl = ({ api, baseUrl }: Settings): string =>
  api === 'anthropic-messages' ? baseUrl.replace(/\/v1$/, '') : baseUrl

export const bearer = ({ apiKey }: Settings): Record<string, string> =>
  apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }
