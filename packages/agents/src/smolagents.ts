/** smolagents. It repeats the calls after the model's answer and sends tool results as user messages. */
import type { Agent } from './agent.ts'

export const smolagents: Agent = {
  name: 'smolagents',
  sentences: [/^\s*New task:\n/g],
  textProtocol: {
    call: /(?<![^\n])Calling tools:/,
    restated: /(?<![^\n])Calling tools:\n[^\n]*/g,
    result: { begins: /^\s*(?:Observation:|(?:Call id: [^\n]*\n)?Error:\n)/, userFrom: '\nNew task:\n' },
  },
}
