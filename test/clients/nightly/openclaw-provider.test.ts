/**
 * packages/openclaw in OpenClaw itself, of its target release: the declared types fit the package's, OpenClaw reports
 * no problem, and its requests are labelled.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { OPENCLAW_RELEASE } from '@instar/openclaw-provider/source'
import { ANSWERS, begin, PROMPTS, travel } from '../agents/journey.ts'
import { openclaw, type Program } from '../agents/programs.ts'
import { runProgram } from '../program.ts'
import { assertAnswered } from '../scene.ts'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const PLUGIN = path.join(ROOT, 'packages/openclaw')
const OPENCLAW = path.join(import.meta.dirname, 'node_modules/openclaw')

/** Without an entry under models.providers: address and models come from the plugin, the key from the environment. */
const withPlugin = (more: Readonly<Record<string, unknown>> = {}): Program => {
  const program = openclaw()
  return {
    ...program,
    async prepare(scene, place) {
      await program.prepare(scene, place)
      const file = path.join(place.home, '.openclaw/openclaw.json')
      const { agents } = JSON.parse(await readFile(file, 'utf8')) as { agents: unknown }
      await writeFile(
        file,
        JSON.stringify({
          agents,
          plugins: {
            allow: ['instar'],
            load: { paths: [PLUGIN] },
            entries: {
              instar: {
                enabled: true,
                hooks: { allowConversationAccess: true },
                config: { baseUrl: `${scene.url}/v1`, apiKey: '${INSTAR_KEY}', ...more },
              },
            },
          },
        }),
      )
    },
    run: (scene, place, prompt) =>
      runProgram(
        path.join(OPENCLAW, 'openclaw.mjs'),
        ['agent', '--local', '--agent', 'main', '--session-id', 'journey', '--message', prompt, '--json'],
        place,
        { INSTAR_KEY: scene.token },
        300_000,
      ),
  }
}

test('the types that the plugin declares are those of the OpenClaw release', async (t) => {
  assert.equal(
    (JSON.parse(await readFile(path.join(OPENCLAW, 'package.json'), 'utf8')) as { version: string }).version,
    OPENCLAW_RELEASE,
  )
  const folder = await mkdtemp(path.join(tmpdir(), 'instar-types-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  await writeFile(
    path.join(folder, 'held.ts'),
    `
import type { OpenClawPluginApi, OpenClawPluginDefinition, OpenClawPluginCommandDefinition, ProviderPlugin } from 'openclaw/plugin-sdk/plugin-entry'
import plugin from ${JSON.stringify(path.join(PLUGIN, 'src/index.ts'))}
import type { Command, Provider } from ${JSON.stringify(path.join(PLUGIN, 'src/host.ts'))}
export const whole: OpenClawPluginDefinition = plugin
export const registered = (api: OpenClawPluginApi): void => plugin.register(api)
export const provider = (ours: Provider): ProviderPlugin => ours
export const command = (ours: Command): OpenClawPluginCommandDefinition => ours
// @ts-expect-error the release's types are really there
export const wrong: ProviderPlugin = { ...provider, wrapStreamFn: () => 3 }
`,
  )
  await writeFile(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({
      compilerOptions: {
        target: 'es2024',
        lib: ['es2024', 'dom'],
        module: 'nodenext',
        moduleResolution: 'nodenext',
        strict: true,
        skipLibCheck: true,
        noEmit: true,
        allowImportingTsExtensions: true,
        types: ['node'],
        typeRoots: [path.join(ROOT, 'node_modules/@types')],
        paths: { 'openclaw/plugin-sdk/plugin-entry': [path.join(OPENCLAW, 'dist/plugin-sdk/plugin-entry.d.ts')] },
      },
      files: ['held.ts'],
    }),
  )
  const tsc = path.join(path.dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')
  const { status, stdout } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' })
  assert.equal(status, 0, stdout)
})

test('OpenClaw with the provider names its session, and its answers are joined', async () => {
  const journey = await begin(withPlugin())
  try {
    const { place, scene } = journey
    const inspected = await runProgram(
      path.join(OPENCLAW, 'openclaw.mjs'),
      ['plugins', 'inspect', 'instar', '--runtime', '--json'],
      place,
      { INSTAR_KEY: scene.token },
      300_000,
    )
    assert.equal(inspected.code, 0, inspected.stderr)
    assert.match(inspected.stdout, /"feedback"/)
    await travel(journey)
    const story = await scene.story()
    assert.deepEqual(story.of('session'), [0, 0, 0, 0, 0])
    assert.deepEqual(story.of('kind'), ['main', 'main', 'main', 'main', 'main'])
    assert.deepEqual(story.of('next'), [1, 2, 3, 4, null])
    assert.deepEqual(
      story.turns.map(({ event }) => event.labelSource),
      ['header', 'header', 'header', 'header', 'header'],
    )
    assertAnswered(scene, story)
  } finally {
    await journey.end()
  }
})

for (const [api, dialect] of [
  ['openai-responses', 'responses'],
  ['anthropic-messages', 'messages'],
] as const) {
  test(`OpenClaw with the provider on ${api} labels its session`, async () => {
    const journey = await begin(withPlugin({ api }))
    try {
      const ran = await journey.say(PROMPTS[2])
      assert.equal(ran.code, 0, ran.stderr)
      assert.ok(ran.stdout.includes(ANSWERS[2]))
      const { turns } = await journey.scene.story()
      assert.deepEqual(
        turns.map(({ event }) => [event.dialect, event.labelSource, event.kind, event.session]),
        [[dialect, 'header', 'main', 'clients_journey']],
      )
    } finally {
      await journey.end()
    }
  })
}
