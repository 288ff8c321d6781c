export { header, type Agent, type Headers, type Message, type SideTask } from './agent.ts'
export { AGENT_NAMES, agentNameOf, knownAgentName, OTHER_AGENT } from './agent-name.ts'
export {
  AGENT_HEADERS,
  AGENTS,
  agentSession,
  isIgnoredSystem,
  isScriptedAnswer,
  isSideRequest,
  kindInHeaders,
  parentSession,
  rewritesUser,
  sessionInMessages,
  sideTask,
  TEXT_PROTOCOLS,
  userIdParts,
  userTurnOf,
  userWords,
} from './agents.ts'
