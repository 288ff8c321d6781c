/**
 * The part of OpenClaw's plugin interface that this plugin uses, as release 2026.9.6 declares it
 * (`openclaw/plugin-sdk/plugin-entry`). test/clients/nightly compares these types with that package's and runs the
 * plugin.
 */

export const OPENCLAW_RELEASE = '2026.9.6'

/** Hooks about conversations require the permission `hooks.allowConversationAccess` in OpenClaw's config. */
type AgentContext = { readonly sessionId?: string; readonly trigger?: string }

/** One request of a generic transport (chat and responses). The hook is called for each request, retries included. */
type TransportTurn = { readonly provider: string; readonly sessionId?: string }
export type TurnState = { headers?: Record<string, string> }

export type ProviderResponse = { status: number; headers: Record<string, string> }

/** The options of a model call that the plugin reads or sets. Header names of responses are lower case. */
export type CallOptions<M> = {
  sessionId?: string
  headers?: Record<string, string>
  /** Called with the response's headers, before the body is read. */
  onResponse?: (response: ProviderResponse, model: M) => void | Promise<void>
}

export type Stream<M, C, O, R> = (model: M, context: C, options?: O) => R

export type Api = 'openai-completions' | 'openai-responses' | 'anthropic-messages'
export type ModelDefinition = {
  id: string
  name: string
  reasoning: boolean
  input: ('text' | 'image')[]
  cost: { input: number; output: number; cacheRead: number; cacheWrite: number }
  contextWindow: number
  maxTokens: number
}
export type RuntimeModel = ModelDefinition & { provider: string; api: Api; baseUrl: string }
type ProviderConfig = {
  baseUrl: string
  apiKey: string
  api: Api
  request: { allowPrivateNetwork: boolean }
  models: ModelDefinition[]
}

export type Provider = {
  id: string
  label: string
  envVars: string[]
  /** Sign-in methods: none, since the key is in the environment. */
  auth: []
  catalog: { order: 'late'; run(context: { signal?: AbortSignal }): Promise<{ provider: ProviderConfig }> }
  prepareDynamicModel(context: { modelId: string }): Promise<RuntimeModel>
  resolveDynamicModel(context: { modelId: string }): RuntimeModel
  resolveTransportTurnState(turn: TransportTurn): TurnState | undefined
  wrapStreamFn<M, C, O extends CallOptions<M>, R>(context: {
    streamFn?: Stream<M, C, O, R>
  }): Stream<M, C, O, R> | undefined
  wrapSimpleCompletionStreamFn<M, C, O extends CallOptions<M>, R>(context: {
    streamFn?: Stream<M, C, O, R>
  }): Stream<M, C, O, R> | undefined
}

type CommandCall = { readonly args?: string; readonly sessionId?: string }
export type Command = {
  name: string
  description: string
  acceptsArgs: true
  handler(call: CommandCall): Promise<{ text: string }>
}

export type Host = {
  readonly pluginConfig?: Record<string, unknown>
  registerProvider(provider: Provider): void
  registerCommand(command: Command): void
  on(hook: 'before_prompt_build', handler: (event: { readonly prompt: string }, context: AgentContext) => void): void
}
