export { header, type Agent, type Headers, type Message } from './agent.ts'
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
  TEXT_PROTOCOLS,
  userIdParts,
  userTurnOf,
  userWords,
} from './agents.ts'
