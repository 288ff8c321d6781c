/** OpenCode. pi and OpenClaw send the same session header if they are configured to. */
import { firstHeader, header, type Agent } from './agent.ts'

export const openCode: Agent = {
  name: 'OpenCode',
  headers: ['x-opencode-session', 'x-session-affinity', 'x-parent-session-id'],
  session: (headers) => firstHeader(headers, ['x-opencode-session', 'x-session-affinity']),
  parent: (headers) => header(headers, 'x-parent-session-id'),
  sideSystems: {
    title: [/^You are a title generator\b/],
    compaction: [/^You are a context summarization (agent|assistant)\b/],
  },
  /** Added after a compaction. */
  sentences: [
    /^\s*Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed\.\s*$/g,
  ],
}
