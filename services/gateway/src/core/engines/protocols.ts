import { vllm } from './vllm.ts'
import type { EngineKind, Protocol } from './wire.ts'

export const PROTOCOLS: Readonly<Record<EngineKind, Protocol>> = { vllm, sglang: vllm, llamacpp: vllm, openai: vllm }
