/** Every request of the recorded clients, with its real user agent, headers and texts, gives the client's name. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { test } from 'node:test'
import { AGENT_NAMES, agentNameOf } from '@instar/agents'
import { DIALECTS, fieldsOf } from '@instar/dialects'
import { AGENT_CHOICES } from '../../../packages/dashboard/web/session-words.ts'
import { tapeNamed } from './replay.ts'

/** By the beginning of the tape's name. */
const NAMES: Readonly<Record<string, string>> = {
  'ai-sdk': 'AI SDK',
  aider: 'aider',
  anthropic: 'Anthropic SDK',
  claude: 'Claude Code',
  codex: 'Codex',
  crewai: 'CrewAI',
  langchain: 'LangChain',
  llamaindex: 'LlamaIndex',
  mini: 'mini-swe-agent',
  'openai-agents': 'OpenAI Agents',
  openclaw: 'OpenClaw',
  opencode: 'OpenCode',
  pi: 'pi',
  'pydantic-ai': 'Pydantic AI',
  qwen: 'Qwen Code',
  smolagents: 'smolagents',
}

const dialectOfPath = (path: string) =>
  path.includes('/messages') ? DIALECTS.messages : path.includes('/responses') ? DIALECTS.responses : DIALECTS.chat

for (const file of readdirSync(import.meta.dirname)
  .filter((name) => name.endsWith('.jsonl'))
  .toSorted()) {
  const tape = file.slice(0, -'.jsonl'.length)
  const expected = NAMES[tape.split('.')[0]!.replace('-with-session-headers', '').replace('-with-session', '')]
  test(`the requests of the tape ${tape} are of ${expected}`, () => {
    const { requests } = tapeNamed(tape)
    const names = requests.map(({ path, headers, body }) =>
      agentNameOf(headers, dialectOfPath(path).messages(fieldsOf(body, 'body'))),
    )
    assert.ok(names.length > 0)
    assert.deepEqual([...new Set(names)], [expected])
  })
}

test('the dashboard offers every name, and the turns without one', () => {
  assert.deepEqual(
    AGENT_CHOICES.map(([name]) => name),
    [...AGENT_NAMES, 'unknown'],
  )
})
