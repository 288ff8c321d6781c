/** Qwen Code. It sends no session id. */
import type { Agent } from './agent.ts'

export const qwenCode: Agent = {
  name: 'Qwen Code',
  sideSystems: { memory: [/\bmemory extraction subagent\b/i] },
}
