/** The engines behind HTTP, as INSTAR_ENGINE names them: `KIND+http://…/v1`. */
export const ENGINE_KINDS = ['openai', 'vllm', 'sglang', 'llamacpp'] as const
export type EngineKind = (typeof ENGINE_KINDS)[number]
