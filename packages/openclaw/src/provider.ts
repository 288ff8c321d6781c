/** The provider `instar`: models, key, and labels on every request. */
import type { CallOptions, Provider, Stream } from './host.ts'
import type { Labels } from './labels.ts'
import { listModels, oneModel, runtimeModelOf, defaultModel } from './models.ts'
import { transportUrl, type Settings } from './settings.ts'

/** The API key for gateways without keys. */
const NO_KEY = 'none'

export const createProvider = (settings: Settings, labels: Labels): Provider => {
  /**
   * Adds the labels to a model call and reads the turn's id from its response. All transports call it;
   * `resolveTransportTurnState` is called by the generic ones only.
   */
  const labelled = <M, C, O extends CallOptions<M>, R>(
    inner: Stream<M, C, O, R> | undefined,
    kind?: 'side',
  ): Stream<M, C, O, R> | undefined =>
    inner &&
    ((model, context, options) =>
      inner(model, context, {
        ...options,
        headers: { ...options?.headers, ...labels.headers(options?.sessionId, kind) },
        async onResponse(response, responseModel) {
          labels.responded(options?.sessionId, response, kind)
          await options?.onResponse?.(response, responseModel)
        },
      } satisfies CallOptions<M> as O))
  return {
    id: 'instar',
    label: 'Instar',
    envVars: ['INSTAR_KEY'],
    auth: [],
    catalog: {
      order: 'late',
      run: async ({ signal }) => ({
        provider: {
          baseUrl: transportUrl(settings),
          apiKey: settings.apiKey ?? NO_KEY,
          api: settings.api,
          request: { allowPrivateNetwork: true },
          models: await listModels(settings, signal),
        },
      }),
    },
    prepareDynamicModel: async ({ modelId }) => runtimeModelOf(await oneModel(modelId, settings), settings),
    resolveDynamicModel: ({ modelId }) => runtimeModelOf(defaultModel(modelId, settings), settings),
    resolveTransportTurnState({ sessionId }) {
      const headers = labels.headers(sessionId)
      return Object.keys(headers).length > 0 ? { headers } : undefined
    },
    wrapStreamFn: ({ streamFn }) => labelled(streamFn),
    // Completions outside the agent's loop: titles, summaries, extraction.
    wrapSimpleCompletionStreamFn: ({ streamFn }) => labelled(streamFn, 'side'),
  }
}
