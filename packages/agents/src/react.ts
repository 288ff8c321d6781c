/** ReAct agents (CrewAI, LlamaIndex): the answer contains `Action:`, the next message `Observation:`. */
import type { Agent } from './agent.ts'

export const react: Agent = {
  name: 'ReAct (CrewAI, LlamaIndex)',
  sentences: [/^\s*Analyze the tool result\. If requirements are met, provide the Final Answer\.[^\n]*$/g],
  textProtocol: { call: /(?<![^\n])Action:/ },
}
