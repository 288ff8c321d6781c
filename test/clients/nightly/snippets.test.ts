/** The configurations of these agents in docs/agents.md, and the Python snippet of README.md, applied as printed. */
import assert from 'node:assert/strict'
import path from 'node:path'
import { test } from 'node:test'
import { SCRIPTS } from '../agents/programs.ts'
import { runProgram } from '../program.ts'
import { calls } from '../scene.ts'
import { ANSWER, assertTold, blocksOf, follow, inPlace, PROMPT, type Followed } from '../snippets.ts'
import { pythonAgents } from './python.ts'

const AGENTS: readonly Followed[] = [
  {
    name: 'OpenCode',
    command: 'opencode',
    script: SCRIPTS.opencode,
    headless: `run '${PROMPT}'`,
    dialect: 'chat',
    source: 'header',
    offline: {
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    },
  },
  {
    name: 'Qwen Code',
    command: 'qwen',
    script: SCRIPTS.qwen,
    headless: `-p '${PROMPT}'`,
    dialect: 'chat',
    source: 'fingerprint',
  },
  {
    name: 'OpenClaw',
    command: 'openclaw',
    script: SCRIPTS.openclaw,
    headless: `agent --local --agent main --message '${PROMPT}'`,
    dialect: 'chat',
    source: 'agent',
  },
  {
    name: 'mini-swe-agent',
    command: 'mini',
    script: path.join(pythonAgents(), 'mini'),
    own: { '…': PROMPT },
    headless: '--yolo --exit-immediately --output run.json',
    dialect: 'chat',
    source: 'fingerprint',
    say: () =>
      `${ANSWER}\n${calls(['bash', JSON.stringify({ command: `echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo ${ANSWER}` })])}`,
    offline: { LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
  },
  {
    name: 'aider',
    command: 'aider',
    script: path.join(pythonAgents(), 'aider'),
    own: { '<session>': 'clock' },
    headless: `--no-git --no-check-update --analytics-disable --yes-always --no-pretty --message '${PROMPT}'`,
    dialect: 'chat',
    source: 'header',
    offline: { LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
  },
]

for (const agent of AGENTS) {
  test(`${agent.name}: the configuration in docs/agents.md gives an answer, and the turn is in one session`, () =>
    inPlace(async (scene, place) => {
      await assertTold(scene, await follow(agent, scene.url, place), agent)
    }, agent.say))
}

test('the Python snippet of README.md gives an answer', () =>
  inPlace(async (scene, place) => {
    const [block, ...more] = (await blocksOf('README.md', scene.url)).filter(({ language }) => language === 'python')
    assert.ok(block && more.length === 0)
    const asked = `${block.text}print(client.chat.completions.create(model="policy", messages=[{"role": "user", "content": "${PROMPT}"}]).choices[0].message.content)\n`
    await assertTold(scene, await runProgram(path.join(pythonAgents(), 'python'), ['-c', asked], place, {}), {
      dialect: 'chat',
      source: 'fingerprint',
    })
  }))
