/** Agents that use ReAct in plain text: CrewAI appends the result to the answer, LlamaIndex rewrites the text. */
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { converse, pythonClients, type PythonClient } from '../python/programs.ts'
import type { Say } from '../scene.ts'

const pins = readFileSync(new URL('../python/text-agents.in', import.meta.url), 'utf8')
const pinned = (name: string): string => `${name} ${new RegExp(`^${name}==(.*)$`, 'm').exec(pins)![1]}`

const react: Say = (last) => {
  if (last.includes('Good bye')) return 'Thought: Done.\nAnswer: Bye.'
  if (last.includes('wrong'))
    return 'Thought: I look again.\nAction: read\nAction Input: {"path":  "c.txt", "lines": 1}'
  if (last.includes('Observation: It is green')) return 'Thought: I know.\nAnswer: Green it is.'
  if (last.includes('It is blue')) return 'Thought: I know both.\nAnswer: Red and blue.\nFinal Answer: Red and blue.'
  if (last.includes('It is red'))
    return 'Thought: And the other.\nAction: read\nAction Input: {"path": "b.txt", "lines": 3}'
  return 'Thought: I will look.\nAction: read\nAction Input: {"lines":  2, "path": "a.txt"}'
}
const READ = [
  { path: 'a.txt', lines: 2 },
  { path: 'b.txt', lines: 3 },
]
const STEPS = [
  { user: /^$/, tools: /^Observation: It is red\.$/ },
  { user: /^$/, tools: /^Observation: It is blue\.$/ },
]

const CLIENTS: readonly PythonClient[] = [
  {
    name: `${pinned('crewai')} ReAct`,
    script: 'crewai_agent',
    tape: 'crewai.react',
    say: react,
    said: ['Red and blue.'],
    asked: READ,
    turns: 3,
    heard: STEPS,
    rewritten: true,
  },
  {
    name: `${pinned('llama-index-core')} ReActAgent`,
    script: 'llamaindex_agent',
    tape: 'llamaindex.react',
    say: react,
    said: ['Red and blue.\nFinal Answer: Red and blue.', 'Green it is.', 'Bye.'],
    asked: [...READ, { path: 'c.txt', lines: 1 }],
    turns: 6,
    rewritten: true,
    heard: [
      ...STEPS,
      { user: /^That was wrong\.$/, tools: /^$/ },
      { user: /^$/, tools: /^Observation: It is green\.$/ },
      { user: /^Good bye\.$/, tools: /^$/ },
    ],
  },
]

for (const client of CLIENTS) {
  test(`${client.name}: a run is one session, each result is the next state of its step, and feedback by answer ids counts`, async () => {
    await converse(pythonClients('text-agents.txt')!, client, false)
  })
}
