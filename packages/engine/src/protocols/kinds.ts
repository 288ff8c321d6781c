/** The kinds of remote engines, as in `INSTAR_ENGINE=KIND+http://…/v1`. */
export const ENGINE_KINDS = ['openai', 'vllm', 'sglang', 'llamacpp'] as const
export type EngineKind = (typeof ENGINE_KINDS)[number]
