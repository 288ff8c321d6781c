/** Session headers of LLM proxies between an agent and the gateway (LiteLLM, Helicone, others). */
import { firstHeader, type Agent } from './agent.ts'

const NAMES = ['x-litellm-session-id', 'helicone-session-id', 'x-conversation-id']

export const proxies: Agent = {
  name: 'proxies',
  headers: NAMES,
  session: (headers) => firstHeader(headers, NAMES),
}
