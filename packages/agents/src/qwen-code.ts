/** Qwen Code. It names no session. */
import type { Agent } from './agent.ts'

export const qwenCode: Agent = {
  name: 'Qwen Code',
  sideSystems: [/\bmemory extraction subagent\b/i],
}
