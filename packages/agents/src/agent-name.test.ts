/** The recorded user agents of real clients: test/clients/tapes/agent-names.test.ts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AGENT_NAMES, agentNameOf, knownAgentName, OTHER_AGENT } from './agent-name.ts'

const of = (userAgent: string, system = '', more: Record<string, string> = {}): string =>
  agentNameOf({ 'user-agent': userAgent, ...more }, [
    { role: 'system', content: system },
    { role: 'user', content: 'Hello.' },
  ])

test('a user agent of its own goes before texts, and texts before the library that sent the request', () => {
  assert.equal(of('claude-cli/2.1.329 (external, sdk-cli)', 'Act as an expert software developer.'), 'Claude Code')
  assert.equal(of('OpenAI/Python 2.20.0', 'Act as an expert software developer.'), 'aider')
  assert.equal(of('OpenAI/Python 2.20.0', 'Be brief.'), 'OpenAI SDK')
})

test('behind a proxy with a user agent of its own the agent’s headers tell', () => {
  assert.equal(of('litellm/1.80', '', { 'x-claude-code-session-id': 's' }), 'Claude Code')
  assert.equal(of('litellm/1.80', '', { 'x-codex-window-id': 'w:0' }), 'Codex')
  assert.equal(of('pi (linux 6.0.0; x64)', '', { 'x-opencode-session': 's' }), 'pi')
})

test('a request without a known mark, whatever it says of itself, is of another program', () => {
  for (const hostile of ['', '<script>alert(1)</script>', `x${'claude-cli/'.repeat(10_000)}`, 'Claude Code', 'other\0'])
    assert.equal(of(hostile, hostile), OTHER_AGENT)
  assert.equal(agentNameOf({}, []), OTHER_AGENT)
})

test('the beginning of the system text tells, the first 4,000 characters of it', () => {
  const crew = (length: number): string => `You are a reader.${' '.repeat(length)}\nYour personal goal is: Read.`
  assert.equal(of('x', crew(1_000)), 'CrewAI')
  assert.equal(of('x', crew(4_000)), OTHER_AGENT)
  assert.equal(of('x', `Be brief. ${crew(0)}`), OTHER_AGENT)
})

test('names are few, short and plain, and one that is not in the list is another program', () => {
  assert.equal(new Set(AGENT_NAMES).size, AGENT_NAMES.length)
  for (const name of AGENT_NAMES) assert.match(name, /^[A-Za-z][A-Za-z -]{1,19}$/)
  assert.deepEqual(['Codex', 'codex', 'nobody'].map(knownAgentName), ['Codex', OTHER_AGENT, OTHER_AGENT])
})
