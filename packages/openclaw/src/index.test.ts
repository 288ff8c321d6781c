/**
 * The plugin with a real gateway and a host that calls its hooks as OpenClaw 2026.9.6 does: turn state before each
 * request of a generic transport, whose headers override those of the call's options; options passed through the
 * wrapped stream function; lower-case response headers before the body. test/clients/nightly runs OpenClaw itself.
 */
import plugin from './index.ts'
import { readWritten } from '@instar/events'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { feedbackOf, startRig, turnsOf, USER, type Rig, type RigOptions } from '../../../test/kit/gateway.ts'

type Api = Parameters<typeof plugin.register>[0]
type Provider = Parameters<Api['registerProvider']>[0]
type Command = Parameters<Api['registerCommand']>[0]
type RunHandler = Parameters<Api['on']>[1]
type Options = {
  sessionId?: string
  headers?: Record<string, string>
  onResponse?: (response: { status: number; headers: Record<string, string> }, model: string) => void | Promise<void>
}

type Message = { role: string; content: string }
type AskOptions = { session?: string; trigger?: string; simple?: boolean; generic?: boolean; statuses?: string[] }

class FakeHost {
  provider!: Provider
  command!: Command
  private runStarted!: RunHandler
  private readonly allowed: boolean

  constructor(pluginConfig: Record<string, unknown>, allowed = true) {
    this.allowed = allowed
    plugin.register({
      pluginConfig,
      registerProvider: (provider) => {
        this.provider = provider
      },
      registerCommand: (command) => {
        this.command = command
      },
      on: (_hook, handler) => {
        this.runStarted = handler
      },
    })
  }

  /** One agent run with one request. `generic`: the transport reads the turn state (Anthropic's does not). */
  async ask(
    messages: Message[],
    { session, trigger = 'user', simple = false, generic = true, statuses = [] }: AskOptions = {},
  ): Promise<string> {
    if (this.allowed && !simple) this.runStarted({ prompt: 'p' }, { sessionId: session, trigger })
    const transport = async (model: string, context: Message[], options?: Options): Promise<string> => {
      const { provider } = await this.provider.catalog.run({})
      const turn = generic
        ? this.provider.resolveTransportTurnState({ provider: 'instar', sessionId: options?.sessionId })
        : undefined
      const response = await fetch(`${provider.baseUrl}/chat/completions`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${provider.apiKey}`,
          ...options?.headers,
          ...turn?.headers,
        },
        body: JSON.stringify({ model, messages: context }),
      })
      await options?.onResponse?.({ status: response.status, headers: Object.fromEntries(response.headers) }, model)
      const { choices } = (await response.json()) as { choices: { message: Message }[] }
      return choices[0]!.message.content
    }
    const wrap = simple ? this.provider.wrapSimpleCompletionStreamFn : this.provider.wrapStreamFn
    const stream = wrap<string, Message[], Options, Promise<string>>({ streamFn: transport })
    ok(stream)
    return stream('policy', messages, {
      sessionId: session,
      headers: { 'x-own': 'kept' },
      onResponse: (response, model) => {
        statuses.push(`${model} ${response.status}`)
      },
    })
  }
}

const rigOf = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  let answers = 0
  const rig = await startRig({ script: () => `Answer number ${(answers += 1)}.`, ...options })
  t.after(() => rig.stop())
  return rig
}

test('requests have session and kind; one conversation is one session', async (t) => {
  const rig = await rigOf(t)
  const host = new FakeHost({ baseUrl: rig.url })
  const statuses: string[] = []
  const first = await host.ask([USER('Hi')], { session: 'desk 1', statuses })
  await host.ask([USER('Hi'), { role: 'assistant', content: first }, USER('More')], {
    session: 'desk 1',
    generic: false,
    statuses,
  })
  for (const trigger of ['heartbeat', 'memory', 'cron'])
    await host.ask([USER(`${trigger}?`)], { session: 'desk 1', trigger, statuses })
  await host.ask([USER('A title for this')], { session: 'desk 1', simple: true, statuses })
  await host.ask([USER('Another')], { session: 'desk 2', statuses })
  const turns = await turnsOf(rig.log)
  const [one, two] = [turns[0]!.session, turns.at(-1)!.session]
  ok(one !== two)
  deepEqual(
    turns.map(({ session, kind, labelSource }) => [session, kind, labelSource]),
    [
      [one, 'main', 'header'],
      [one, 'main', 'header'],
      [one, 'side', 'header'],
      [one, 'side', 'header'],
      [one, 'side', 'header'],
      [one, 'side', 'header'],
      [two, 'main', 'header'],
    ],
  )
  deepEqual(
    statuses,
    Array.from({ length: 7 }, () => 'policy 200'),
    "the caller's onResponse is called",
  )
})

test('without access to conversations requests have the session, and the gateway classifies them', async (t) => {
  const rig = await rigOf(t)
  await new FakeHost({ baseUrl: rig.url }, false).ask([USER('Hi')], { session: 'desk', trigger: 'heartbeat' })
  deepEqual(
    (await turnsOf(rig.log)).map(({ labelSource, kind }) => [labelSource, kind]),
    [['header', 'main']],
  )
})

test('/feedback rates the turn that the user saw last, even if side turns followed it', async (t) => {
  const rig = await rigOf(t)
  const host = new FakeHost({ baseUrl: `${rig.url}/v1/` })
  const feedback = async (args: string | undefined, sessionId?: string): Promise<string> =>
    (await host.command.handler({ args, sessionId })).text
  await host.ask([USER('Hi')], { session: 'desk' })
  await host.ask([USER('Hi there')], { session: 'other' })
  await host.ask([USER('Anything to do?')], { session: 'desk', trigger: 'heartbeat' })
  await host.ask([USER('Title?')], { session: 'desk', simple: true })
  const [seen, other] = await turnsOf(rig.log)
  equal(host.command.name, 'feedback')
  match(await feedback('+', 'desk'), /^Recorded: the last answer was good\.$/)
  match(await feedback('- too long', 'desk'), /bad, with your comment/)
  match(await feedback('one paragraph, please', 'other'), /to be corrected, with your comment/)
  deepEqual(
    (await feedbackOf(rig.log)).map(({ turn, value, comment }) => [turn, value, comment && readWritten(comment)]),
    [
      [seen!.turn, 1, null],
      [seen!.turn, -1, 'too long'],
      [other!.turn, -0.5, 'one paragraph, please'],
    ],
  )
  match(await feedback(undefined, 'desk'), /Usage: \/feedback \+/)
  match(await feedback('+'), /no answer to rate yet/)
  match(await feedback('+', 'unknown session'), /HTTP 404/)
  equal((await feedbackOf(rig.log)).length, 3)
})

test('after a restart of OpenClaw /feedback rates the last turn of the session', async (t) => {
  const rig = await rigOf(t)
  await new FakeHost({ baseUrl: rig.url }).ask([USER('Hi')], { session: 'desk' })
  match((await new FakeHost({ baseUrl: rig.url }).command.handler({ args: '-', sessionId: 'desk' })).text, /bad/)
  const [turn] = await turnsOf(rig.log)
  deepEqual(
    (await feedbackOf(rig.log)).map(({ session, turn: turnId, value }) => [session, turnId, value]),
    [[turn!.session, null, -1]],
  )
})

test("requests and feedback use the config's API key", async (t) => {
  const key = { id: 'claw', sha256: createHash('sha256').update('sk-claw').digest('hex') }
  const rig = await rigOf(t, { settings: { keys: [key] } })
  const host = new FakeHost({ baseUrl: rig.url, apiKey: 'sk-claw' })
  await host.ask([USER('Hi')], { session: 'desk' })
  match((await host.command.handler({ args: '+', sessionId: 'desk' })).text, /good/)
  equal((await feedbackOf(rig.log))[0]!.key, 'claw')
  match(
    (await new FakeHost({ baseUrl: rig.url, apiKey: 'sk-wrong' }).command.handler({ args: '+', sessionId: 'desk' }))
      .text,
    /HTTP 401/,
  )
})

test('the models are those of the gateway, with its context; the head alone if the gateway is unreachable', async (t) => {
  const rig = await rigOf(t)
  const { provider } = new FakeHost({ baseUrl: rig.url })
  const { data } = (await (await rig.fetch('/v1/models')).json()) as { data: { id: string; max_model_len: number }[] }
  const listed = (await provider.catalog.run({})).provider
  deepEqual(
    listed.models.map(({ id, contextWindow }) => [id, contextWindow]),
    data.map(({ id, max_model_len: context }) => [id, context]),
  )
  deepEqual([listed.baseUrl, listed.api], [`${rig.url}/v1`, 'openai-completions'])
  const pinned = await provider.prepareDynamicModel({ modelId: 'policy@0' })
  deepEqual(
    [pinned.id, pinned.provider, pinned.baseUrl, pinned.contextWindow],
    ['policy@0', 'instar', `${rig.url}/v1`, data[0]!.max_model_len],
  )
  const unreachable = new FakeHost({ baseUrl: 'http://127.0.0.1:9' })
  deepEqual(
    (await unreachable.provider.catalog.run({})).provider.models.map(({ id }) => id),
    ['policy'],
  )
  match((await unreachable.command.handler({ args: '+', sessionId: 'desk' })).text, /is unreachable/)
})

test("the manifest has the id, provider and version of the plugin's code", () => {
  const read = (name: string): Record<string, unknown> =>
    JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')) as Record<string, unknown>
  const manifest = read('openclaw.plugin.json')
  const host = new FakeHost({})
  deepEqual(
    [manifest['id'], manifest['providers'], manifest['version']],
    [plugin.id, [host.provider.id], read('package.json')['version']],
  )
})
