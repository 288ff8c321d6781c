/** The configurations that docs/agents.md gives for these agents, applied as printed. */
import { test } from 'node:test'
import { assertTold, follow, inPlace, PROMPT, type Followed } from '../snippets.ts'
import { SCRIPTS } from './programs.ts'

const AGENTS: readonly Followed[] = [
  {
    name: 'Codex',
    command: 'codex',
    script: SCRIPTS.codex,
    headless: `exec --skip-git-repo-check '${PROMPT}'`,
    dialect: 'responses',
    source: 'agent',
  },
  {
    name: 'Claude Code',
    command: 'claude',
    script: SCRIPTS.claude,
    headless: `-p '${PROMPT}'`,
    dialect: 'messages',
    source: 'agent',
  },
  {
    name: 'pi',
    command: 'pi',
    script: SCRIPTS.pi,
    headless: `-p '${PROMPT}'`,
    dialect: 'chat',
    source: 'agent',
    offline: { PI_OFFLINE: '1', PI_TELEMETRY: '0' },
  },
]

for (const agent of AGENTS) {
  test(`${agent.name}: the configuration in docs/agents.md gives an answer, and the turn is in one session`, () =>
    inPlace(async (scene, place) => {
      await assertTold(scene, await follow(agent, scene.url, place), agent)
    }))
}
