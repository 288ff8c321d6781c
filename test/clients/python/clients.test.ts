/** Python clients: a conversation of five turns with calls, whole and streamed, checked on the log. */
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { calls, type Say } from '../scene.ts'
import { converse, NO_PYTHON, pythonClients, type PythonClient } from './programs.ts'

const pins = readFileSync(new URL('requirements.in', import.meta.url), 'utf8')
const pinned = (name: string): string => `${name} ${new RegExp(`^${name}(?:\\[.*\\])?==(.*)$`, 'm').exec(pins)![1]}`

const code: Say = (last) => {
  if (last.includes('Good bye')) return 'Thought: Done.\n<code>\nfinal_answer("Bye.")\n'
  if (last.includes('wrong')) return 'Thought: Again.\n<code>\nfinal_answer(read("c.txt", 1))\n'
  if (last.includes('It is blue')) return 'Thought: I know both.\n<code>\nfinal_answer("Red and blue.")\n'
  return 'Thought: I will look.\n<code>\nprint(read("a.txt", 2), read("b.txt", 3))\n'
}
const calling: Say = (last) => {
  if (last.includes('Good bye')) return calls(['final_answer', '{"answer": "Bye."}'])
  if (last.includes('wrong')) return calls(['read', '{"lines": 1, "path": "c.txt"}'])
  if (last.includes('green')) return calls(['final_answer', '{"answer": "Green it is."}'])
  if (last.includes('It is blue')) return `I know.\n${calls(['final_answer', '{"answer": "Red and blue."}'])}`
  const read = calls(['read', '{"lines":  2, "path": "a.txt"}'], ['read', '{"lines": 3, "path": "b.txt"}'])
  return `<think>\nTwo.\n</think>\n\nI will look.\n${read}`
}
const observed = (user: RegExp, tools: RegExp) => ({ user, tools })

const CLIENTS: readonly PythonClient[] = [
  { name: pinned('openai'), script: 'openai_chat' },
  { name: `${pinned('openai')} responses`, script: 'openai_responses' },
  { name: pinned('anthropic'), script: 'anthropic_messages' },
  { name: `${pinned('anthropic')} tool_runner`, script: 'anthropic_runner' },
  { name: pinned('litellm'), script: 'litellm_completion' },
  { name: `${pinned('langchain')}, ${pinned('langgraph')}`, script: 'langgraph_agent' },
  { name: `${pinned('openai-agents')} chat`, script: 'openai_agents', args: ['chat'] },
  { name: `${pinned('openai-agents')} responses`, script: 'openai_agents', args: ['responses'] },
  { name: `${pinned('pydantic-ai-slim')} chat`, script: 'pydantic_agent', args: ['chat'], tape: 'pydantic-ai.chat' },
  {
    name: `${pinned('pydantic-ai-slim')} responses`,
    script: 'pydantic_agent',
    args: ['responses'],
    tape: 'pydantic-ai.responses',
  },
  { name: pinned('inspect-ai'), script: 'inspect_eval', streams: false },
  {
    name: `${pinned('smolagents')} CodeAgent`,
    script: 'smolagents_agent',
    args: ['code'],
    tape: 'smolagents.code',
    say: code,
    said: ['Red and blue.', 'It is green.', 'Bye.'],
    turns: 4,
    rewritten: true,
    heard: [
      observed(/^$/, /^Observation:[^]*It is red\. It is blue\./),
      observed(/^That was wrong\.$/, /^Observation:[^]*Red and blue\.$/),
      observed(/^Good bye\.$/, /^Observation:[^]*It is green\.$/),
    ],
  },
  {
    name: `${pinned('smolagents')} ToolCallingAgent`,
    script: 'smolagents_agent',
    args: ['calling'],
    tape: 'smolagents.calling',
    say: calling,
    said: ['Red and blue.', 'Green it is.', 'Bye.'],
    rewritten: true,
    heard: [
      observed(/^$/, /It is red\.\nIt is blue\.$/),
      observed(/^That was wrong\.$/, /Red and blue\.$/),
      observed(/^$/, /It is green\.$/),
      observed(/^Good bye\.$/, /Green it is\.$/),
    ],
  },
]

const programs = pythonClients()
const skip = programs === null && process.env['CI'] === undefined ? NO_PYTHON : false

for (const client of CLIENTS)
  for (const stream of client.streams === false ? [false] : [false, true]) {
    test(
      `${client.name}, ${stream ? 'streamed' : 'whole'}: a conversation is one session, next states are joined, and feedback by the client's ids counts`,
      { skip },
      async () => {
        if (programs === null) throw new Error(NO_PYTHON)
        await converse(programs, client, stream)
      },
    )
  }
