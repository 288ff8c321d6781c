/** How each agent is told of the gateway, started, and gone on with; and what its tools are called with. */
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { runProgram, type Place, type Ran } from '../program.ts'
import type { Scene } from '../scene.ts'

export type Call = readonly [name: string, args: string]

export type Program = {
  name: string
  /** Before the first run. */
  prepare(scene: Scene, place: Place): Promise<void>
  /** `goOn`: the conversation that was the last in this place. */
  run(scene: Scene, place: Place, prompt: string, goOn?: boolean): Promise<Ran>
  /** The model's calls; file names are of the place's work folder. */
  read(place: Place, file: string): Call
  write(place: Place, file: string, text: string): Call
}

const installed = (script: string): string => path.join(import.meta.dirname, 'node_modules', script)

const writeInto = async (folder: string, name: string, text: string): Promise<void> => {
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, name), text)
}

/** `more`: lines of config.toml before the tables. */
export const codex = (more = ''): Program => ({
  name: 'codex',
  prepare: (scene, { home }) => writeInto(path.join(home, '.codex'), 'config.toml', `model = "policy"
model_provider = "instar"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
${more}
[analytics]
enabled = false

[model_providers.instar]
name = "Instar"
base_url = "${scene.url}/v1"
env_key = "INSTAR_KEY"
wire_api = "responses"
`),
  run: (scene, place, prompt, goOn = false) => runProgram(installed('@openai/codex/bin/codex.js'), ['exec', ...(goOn ? ['resume', '--last'] : []), '--skip-git-repo-check', prompt], place, { INSTAR_KEY: scene.token }),
  read: (_, file) => ['exec_command', `{"login":  false, "cmd": "c\\u0061t ${file}"}`],
  write: (_, file, text) => ['exec_command', `{"cmd": "printf %s '${text}' > ${file}" }`],
})

/** `more`: environment. */
export const claude = (more: Readonly<Record<string, string>> = {}): Program => ({
  name: 'claude',
  prepare: () => Promise.resolve(),
  run: (scene, place, prompt, goOn = false) => runProgram(installed('@anthropic-ai/claude-code/cli-wrapper.cjs'), ['-p', prompt, '--dangerously-skip-permissions', '--output-format', 'json', ...(goOn ? ['--continue'] : [])], place, {
    ANTHROPIC_BASE_URL: scene.url, ANTHROPIC_AUTH_TOKEN: scene.token,
    ANTHROPIC_MODEL: 'policy', ANTHROPIC_DEFAULT_OPUS_MODEL: 'policy', ANTHROPIC_DEFAULT_SONNET_MODEL: 'policy', ANTHROPIC_DEFAULT_HAIKU_MODEL: 'policy',
    DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', CLAUDE_CODE_ATTRIBUTION_HEADER: '0', CLAUDE_CODE_GATEWAY_HINT_HEADERS: '1', IS_SANDBOX: '1', ...more,
  }),
  read: (_, file) => ['Bash', `{"description":  "reads ${file}", "command": "c\\u0061t ${file}"}`],
  write: ({ work }, file, text) => ['Write', JSON.stringify({ content: text, file_path: path.join(work, file) })],
})

/** `model`: fields of its entry in models.json; `settings`: settings.json. */
export const pi = (model: Readonly<Record<string, unknown>> = {}, settings: Readonly<Record<string, unknown>> = {}): Program => ({
  name: 'pi',
  async prepare(scene, { home }) {
    const folder = path.join(home, '.pi/agent')
    await writeInto(folder, 'settings.json', JSON.stringify(settings))
    await writeInto(folder, 'models.json', JSON.stringify({
      providers: { instar: { baseUrl: `${scene.url}/v1`, api: 'openai-completions', apiKey: scene.token, models: [{ id: 'policy', name: 'policy', reasoning: true, input: ['text'], contextWindow: 100_000, maxTokens: 4000, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, ...model }] } },
    }))
  },
  run: (_, place, prompt, goOn = false) => runProgram(installed('@earendil-works/pi-coding-agent/dist/bundle/cli.js'), ['-p', '--provider', 'instar', '--model', 'policy', ...(goOn ? ['--continue'] : []), prompt], place, { PI_OFFLINE: '1', PI_SKIP_VERSION_CHECK: '1', PI_TELEMETRY: '0' }),
  read: (_, file) => ['read', `{"limit":  900, "path": "\\u0061${file.slice(1)}"}`],
  write: (_, file, text) => ['write', JSON.stringify({ content: text, path: file })],
})
