/** What the gateway's `/v1/models` lists, in OpenClaw's words. */
import type { ModelDefinition, RuntimeModel } from './host.ts'
import { bearer, transportUrl, type Settings } from './settings.ts'

/** Tokens. Taken where the gateway cannot be asked; small, so that OpenClaw compacts rather than overflows. */
const UNKNOWN_CONTEXT = 32_768
const LONGEST_ANSWER = 4096
const PATIENCE_MS = 5000

const HEAD = 'policy'

/** `context`: of the model, in tokens. */
export const definitionOf = (id: string, context: number, { maxTokens }: Settings): ModelDefinition => ({
  id,
  name: id,
  reasoning: true,
  input: ['text'],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
  contextWindow: context,
  maxTokens: maxTokens ?? Math.min(LONGEST_ANSWER, Math.max(1, Math.floor(context / 4))),
})

export const runtimeModelOf = (definition: ModelDefinition, settings: Settings): RuntimeModel => ({
  ...definition,
  provider: 'instar',
  api: settings.api,
  baseUrl: transportUrl(settings),
})

const contextOf = (card: unknown): number => {
  const length: unknown = isFields(card) ? card['max_model_len'] : null
  return typeof length === 'number' && length > 0 ? length : UNKNOWN_CONTEXT
}

/** The head (`policy`) and the versions that can be asked for; the head alone while the gateway does not answer. */
export const listModels = async (settings: Settings, signal?: AbortSignal): Promise<ModelDefinition[]> => {
  const list = await ask(settings, '/models', signal)
  const cards: unknown[] = isFields(list) && Array.isArray(list['data']) ? list['data'] : []
  const models = cards.flatMap((card) =>
    isFields(card) && typeof card['id'] === 'string' ? [definitionOf(card['id'], contextOf(card), settings)] : [],
  )
  return models.length > 0 ? models : [definitionOf(HEAD, UNKNOWN_CONTEXT, settings)]
}

/** One by its name, listed or not. */
export const oneModel = async (id: string, settings: Settings): Promise<ModelDefinition> =>
  definitionOf(id, contextOf(await ask(settings, `/models/${encodeURIComponent(id)}`)), settings)

/** Whatever is cheap and at once: the gateway is not asked. */
export const unknownModel = (id: string, settings: Settings): ModelDefinition =>
  definitionOf(id, UNKNOWN_CONTEXT, settings)

/** Null where no JSON came: a list of models is advice, a request will say what is wrong. */
const ask = async (settings: Settings, path: string, signal?: AbortSignal): Promise<unknown> => {
  const patience = AbortSignal.timeout(PATIENCE_MS)
  try {
    const answer = await fetch(`${settings.baseUrl}${path}`, {
      headers: bearer(settings),
      signal: signal ? AbortSignal.any([signal, patience]) : patience,
    })
    return answer.ok ? await answer.json() : null
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof Error) return null
    throw error
  }
}

const isFields = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null
