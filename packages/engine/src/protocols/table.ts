/** The remote engines by kind. A new one: a `Protocol` (wire.ts) in a file here, its name in kinds.ts, an entry. */
import { llamacpp } from './llamacpp.ts'
import { openai } from './openai.ts'
import { sglang } from './sglang.ts'
import { vllm } from './vllm.ts'
import type { EngineKind } from './kinds.ts'
import type { Protocol } from './wire.ts'

export const PROTOCOLS: Readonly<Record<EngineKind, Protocol>> = { vllm, sglang, llamacpp, openai }
