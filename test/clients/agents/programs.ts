/** How each agent is configured, started and resumed, and the arguments of its tools. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { AIDER, MINI, pythonAgents } from '../nightly/python.ts'
import { runProgram, type Place, type Ran } from '../program.ts'
import type { Scene } from '../scene.ts'

export type Call = readonly [name: string, args: string]

export type Program = {
  name: string
  version: string
  /** Called before the first run. */
  prepare(scene: Scene, place: Place): Promise<void>
  /** `goOn`: resumes the last conversation of this folder. */
  run(scene: Scene, place: Place, prompt: string, goOn?: boolean): Promise<Ran>
  /** The calls of the model; file names refer to the work folder. */
  read(place: Place, file: string): Call
  write(place: Place, file: string, text: string): Call
}

const installed = (script: string): string => path.join(import.meta.dirname, 'node_modules', script)
/** Agents that are too slow for every push. */
const nightly = (script: string): string => path.join(import.meta.dirname, '../nightly/node_modules', script)

/** By the name of the command. */
export const SCRIPTS = {
  codex: installed('@openai/codex/bin/codex.js'),
  claude: installed('@anthropic-ai/claude-code/cli-wrapper.cjs'),
  pi: installed('@earendil-works/pi-coding-agent/dist/bundle/cli.js'),
  opencode: nightly(`opencode-${process.platform}-${process.arch}/bin/opencode`),
  qwen: nightly('@qwen-code/qwen-code/cli-entry.js'),
  openclaw: nightly('openclaw/openclaw.mjs'),
} as const

const SLOW_MS = 300_000

const versionOf = (packageFolder: string): string =>
  existsSync(path.join(packageFolder, 'package.json'))
    ? String(
        (JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as { version: unknown }).version,
      )
    : 'not installed'

const writeInto = async (folder: string, name: string, text: string): Promise<void> => {
  await mkdir(folder, { recursive: true })
  await writeFile(path.join(folder, name), text)
}

/** `more`: lines of config.toml before its tables. */
export const codex = (more = ''): Program => ({
  name: 'codex',
  version: versionOf(installed('@openai/codex')),
  prepare: (scene, { home }) =>
    writeInto(
      path.join(home, '.codex'),
      'config.toml',
      `model = "policy"
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
`,
    ),
  run: (scene, place, prompt, goOn = false) =>
    runProgram(SCRIPTS.codex, ['exec', ...(goOn ? ['resume', '--last'] : []), '--skip-git-repo-check', prompt], place, {
      INSTAR_KEY: scene.token,
    }),
  read: (_, file) => ['exec_command', `{"login":  false, "cmd": "c\\u0061t ${file}"}`],
  write: (_, file, text) => ['exec_command', `{"cmd": "printf %s '${text}' > ${file}" }`],
})

/** `more`: environment variables. */
export const claude = (more: Readonly<Record<string, string>> = {}): Program => ({
  name: 'claude',
  version: versionOf(installed('@anthropic-ai/claude-code')),
  prepare: () => Promise.resolve(),
  run: (scene, place, prompt, goOn = false) =>
    runProgram(
      SCRIPTS.claude,
      ['-p', prompt, '--dangerously-skip-permissions', '--output-format', 'json', ...(goOn ? ['--continue'] : [])],
      place,
      {
        ANTHROPIC_BASE_URL: scene.url,
        ANTHROPIC_AUTH_TOKEN: scene.token,
        ANTHROPIC_MODEL: 'policy',
        ANTHROPIC_DEFAULT_OPUS_MODEL: 'policy',
        ANTHROPIC_DEFAULT_SONNET_MODEL: 'policy',
        ANTHROPIC_DEFAULT_HAIKU_MODEL: 'policy',
        DISABLE_AUTOUPDATER: '1',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        CLAUDE_CODE_ATTRIBUTION_HEADER: '0',
        CLAUDE_CODE_GATEWAY_HINT_HEADERS: '1',
        IS_SANDBOX: '1',
        ...more,
      },
    ),
  read: (_, file) => ['Bash', `{"description":  "reads ${file}", "command": "c\\u0061t ${file}"}`],
  write: ({ work }, file, text) => ['Write', JSON.stringify({ content: text, file_path: path.join(work, file) })],
})

/** `model`: fields of its entry in models.json; `settings`: settings.json. */
export const pi = (
  model: Readonly<Record<string, unknown>> = {},
  settings: Readonly<Record<string, unknown>> = {},
): Program => ({
  name: 'pi',
  version: versionOf(installed('@earendil-works/pi-coding-agent')),
  async prepare(scene, { home }) {
    const folder = path.join(home, '.pi/agent')
    await writeInto(folder, 'settings.json', JSON.stringify(settings))
    await writeInto(
      folder,
      'models.json',
      JSON.stringify({
        providers: {
          instar: {
            baseUrl: `${scene.url}/v1`,
            api: 'openai-completions',
            apiKey: scene.token,
            models: [
              {
                id: 'policy',
                name: 'policy',
                reasoning: true,
                input: ['text'],
                contextWindow: 100_000,
                maxTokens: 4000,
                cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
                ...model,
              },
            ],
          },
        },
      }),
    )
  },
  run: (_, place, prompt, goOn = false) =>
    runProgram(
      SCRIPTS.pi,
      ['-p', '--provider', 'instar', '--model', 'policy', ...(goOn ? ['--continue'] : []), prompt],
      place,
      { PI_OFFLINE: '1', PI_SKIP_VERSION_CHECK: '1', PI_TELEMETRY: '0' },
    ),
  read: (_, file) => ['read', `{"limit":  900, "path": "\\u0061${file.slice(1)}"}`],
  write: (_, file, text) => ['write', JSON.stringify({ content: text, path: file })],
})

export const opencode = (limit = { context: 100_000, output: 4096 }): Program => ({
  name: 'opencode',
  version: versionOf(nightly('opencode-ai')),
  prepare: (scene, { home }) =>
    writeInto(
      path.join(home, '.config/opencode'),
      'opencode.json',
      JSON.stringify({
        autoupdate: false,
        share: 'disabled',
        model: 'instar/policy',
        permission: 'allow',
        provider: {
          instar: {
            npm: '@ai-sdk/openai-compatible',
            options: { baseURL: `${scene.url}/v1`, apiKey: scene.token },
            models: { policy: { limit } },
          },
        },
      }),
    ),
  run: (_, place, prompt, goOn = false) =>
    runProgram(
      SCRIPTS.opencode,
      ['run', ...(goOn ? ['--continue'] : []), prompt],
      place,
      { OPENCODE_DISABLE_MODELS_FETCH: '1', OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_LSP_DOWNLOAD: '1' },
      SLOW_MS,
    ),
  read: ({ work }, file) => ['read', `{"limit":  900, "filePath": ${JSON.stringify(path.join(work, file))}}`],
  write: ({ work }, file, text) => ['write', JSON.stringify({ content: text, filePath: path.join(work, file) })],
})

export const qwen = (): Program => ({
  name: 'qwen',
  version: versionOf(nightly('@qwen-code/qwen-code')),
  prepare: (_, { home }) =>
    writeInto(
      path.join(home, '.qwen'),
      'settings.json',
      JSON.stringify({
        privacy: { usageStatisticsEnabled: false },
        telemetry: { enabled: false },
        general: { disableAutoUpdate: true },
        security: { auth: { selectedType: 'openai' } },
      }),
    ),
  run: (scene, place, prompt, goOn = false) =>
    runProgram(
      SCRIPTS.qwen,
      ['--yolo', ...(goOn ? ['--continue'] : []), '-p', prompt],
      place,
      { OPENAI_BASE_URL: `${scene.url}/v1`, OPENAI_API_KEY: scene.token, OPENAI_MODEL: 'policy' },
      SLOW_MS,
    ),
  read: ({ work }, file) => ['read_file', `{"limit":  900, "file_path": ${JSON.stringify(path.join(work, file))}}`],
  write: ({ work }, file, text) => ['write_file', JSON.stringify({ content: text, file_path: path.join(work, file) })],
})

/**
 * It takes its work folder and the session name as arguments. `model`: fields of its model entry; `provider`: fields of
 * its provider.
 */
export const openclaw = (
  model: Readonly<Record<string, unknown>> = {},
  provider: Readonly<Record<string, unknown>> = {},
): Program => ({
  name: 'openclaw',
  version: versionOf(nightly('openclaw')),
  prepare: (scene, { home, work }) =>
    writeInto(
      path.join(home, '.openclaw'),
      'openclaw.json',
      JSON.stringify({
        models: {
          mode: 'merge',
          providers: {
            instar: {
              baseUrl: `${scene.url}/v1`,
              apiKey: scene.token,
              api: 'openai-completions',
              request: { allowPrivateNetwork: true },
              ...provider,
              models: [
                {
                  id: 'policy',
                  name: 'policy',
                  reasoning: true,
                  input: ['text'],
                  contextWindow: 100_000,
                  maxTokens: 4096,
                  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
                  ...model,
                },
              ],
            },
          },
        },
        agents: { defaults: { model: { primary: 'instar/policy' }, workspace: work, skipBootstrap: true } },
      }),
    ),
  run: (_, place, prompt) =>
    runProgram(
      SCRIPTS.openclaw,
      ['agent', '--local', '--agent', 'main', '--session-id', 'journey', '--message', prompt, '--json'],
      place,
      {},
      SLOW_MS,
    ),
  read: (_, file) => ['read', `{"limit":  900, "path": "\\u0061${file.slice(1)}"}`],
  write: (_, file, text) => ['write', JSON.stringify({ content: text, path: file })],
})

/** One task per process; it does not resume a conversation. */
export const mini = (): Program => ({
  name: 'mini-swe-agent',
  version: MINI,
  prepare: () => Promise.resolve(),
  run: (scene, place, prompt) =>
    runProgram(
      path.join(pythonAgents(), 'mini'),
      [
        '--model',
        'openai/policy',
        '--task',
        prompt,
        '--yolo',
        '--exit-immediately',
        '--output',
        path.join(place.home, 'run.json'),
      ],
      place,
      {
        OPENAI_API_BASE: `${scene.url}/v1`,
        OPENAI_API_KEY: scene.token,
        MSWEA_CONFIGURED: 'true',
        MSWEA_COST_TRACKING: 'ignore_errors',
        MSWEA_GLOBAL_CONFIG_DIR: place.home,
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      },
      SLOW_MS,
    ),
  read: (_, file) => ['bash', `{"command":  "c\\u0061t ${file}"}`],
  write: (_, file, text) => ['bash', `{"command": "printf %s '${text}' > ${file}" }`],
})

/**
 * It has no tools: it edits the files that its answers name. Without the setting it requests temperature 0, and greedy
 * turns are not trained on. `base`: the path of the API.
 */
export const aider = (base = '/v1'): Program => ({
  name: 'aider',
  version: AIDER,
  prepare: (_, { home }) =>
    writeInto(
      home,
      '.aider.model.settings.yml',
      '- name: openai/policy\n  edit_format: diff\n  use_temperature: false\n',
    ),
  run: (scene, place, prompt, goOn = false) =>
    runProgram(
      path.join(pythonAgents(), 'aider'),
      [
        '--model',
        'openai/policy',
        '--openai-api-base',
        `${scene.url}${base}`,
        '--openai-api-key',
        scene.token,
        '--no-git',
        '--no-check-update',
        '--no-show-release-notes',
        '--analytics-disable',
        '--no-show-model-warnings',
        '--no-pretty',
        '--no-suggest-shell-commands',
        '--no-detect-urls',
        '--yes-always',
        ...(goOn ? ['--restore-chat-history'] : []),
        '--message',
        prompt,
        'a1.txt',
        'a2.txt',
      ],
      place,
      { LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
      SLOW_MS,
    ),
  read: () => {
    throw new Error('aider has no tools')
  },
  write: () => {
    throw new Error('aider has no tools')
  },
})
