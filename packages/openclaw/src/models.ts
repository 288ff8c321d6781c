/** The models of the gateway's `/v1/models` as OpenClaw's model definitions. */
import type { ModelDefinition, RuntimeModel } from './host.ts'
import { bearer, transportUrl, type Settings } from './settings.ts'

/** The context in tokens if the gateway does not report it; small, so that OpenClaw compacts before it overflows. */
const DEFAULT_CONTEXT = 32_768
const DEFAULT_MAX_TOKENS = 4096
const TIMEOUT_MS = 5000

const HEAD = 'policy'

/** `context`: the model's context in tokens. */
export const definitionOf = (id: string, context: number, { maxTokens }: Settings): ModelDefinition => ({
  id,
  name: id,
  reasoning: true,
  input: ['text'],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: context,
  maxTokens: maxTokens ?? Math.min(DEFAULT_MAX_TOKENS, Math.max(1, Math.floor(context / 4))),
})

export const runtimeModelOf = (definition: ModelDefinition, settings: Settings): RuntimeModel => ({
  ...definition,
  provider: 'instar',
  api: settings.api,
  baseUrl: transportUrl(settings),
})

const contextOf = (card: unknown): number => {
  const length: unknown = isFields(card) ? card['max_model_len'] : null
  return typeof length === 'number' && length > 0 ? length : DEFAULT_CONTEXT
}

/** The head (`policy`) and the served versions; the head alone if the gateway is unreachable. */
export const listModels = async (settings: Settings, signal?: AbortSignal): Promise<ModelDefinition[]> => {
  const list = await getJson(settings, '/models', signal)
  const cards: unknown[] = isFields(list) && Array.isArray(list['data']) ? list['data'] : []
  const models = cards.flatMap((card) =>
    isFields(card) && typeof card['id'] === 'string' ? [definitionOf(card['id'], contextOf(card), settings)] : [],
  )
  return models.length > 0 ? models : [definitionOf(HEAD, DEFAULT_CONTEXT, settings)]
}

/** A model by its name, listed or not. */
export const oneModel = async (id: string, settings: Settings): Promise<ModelDefinition> =>
  definitionOf(id, contextOf(await getJson(settings, `/models/${encodeURIComponent(id)}`)), settings)

/** A definition with the default context, without a request to the gateway. */
export const defaultModel = (id: string, settings: Settings): ModelDefinition =>
  definitionOf(id, DEFAULT_CONTEXT, settings)

/** Null on any failure: the list of models is optional, and a model request will report the error. */
const getJson = async (settings: Settings, path: string, signal?: AbortSignal): Promise<unknown> => {
  const timeout = AbortSignal.timeout(TIMEOUT_MS)
  try {
    const answer = await fetch(`${settings.baseUrl}${path}`, {
      headers: bearer(settings),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    })
    return answer.ok ? await answer.json() : null
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof Error) return null
    throw error
  }
}

const isFields = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
