/**
 * packages/openclaw with the real gateway and a host that calls its hooks as OpenClaw 2026.9.6 does: turn state before
 * each request of a generic transport, its headers over those of the call's options; options passed through the
 * wrapped stream function; the answer's headers in lower case, before its body. The program itself: test/clients/nightly.
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
type Began = Parameters<Api['on']>[1]
type Options = {
  sessionId?: string
  headers?: Record<string, string>
  onResponse?: (response: { status: number; headers: Record<string, string> }, model: string) => void | Promise<void>
}

type Message = { role: string; content: string }
type Asking = { session?: string; trigger?: string; simple?: boolean; generic?: boolean; heard?: string[] }

class FakeHost {
  provider!: Provider
  command!: Command
  private began!: Began
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
        this.began = handler
      },
    })
  }

  /** One run of the agent with one request. `generic`: the transport asks for turn state (Anthropic's does not). */
  async ask(
    messages: Message[],
    { session, trigger = 'user', simple = false, generic = true, heard = [] }: Asking = {},
  ): Promise<string> {
    if (this.allowed && !simple) this.began({ prompt: 'p' }, { sessionId: session, trigger })
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
        heard.push(`${model} ${response.status}`)
      },
    })
  }
}

const rigOf = async (t: TestContext, options: RigOptions = {}): Promise<Rig> => {
  let said = 0
  const rig = await startRig({ script: () => `Answer number ${(said += 1)}.`, ...options })
  t.after(() => rig.stop())
  return rig
}

test('requests carry session and kind; one conversation is one session', async (t) => {
  const rig = await rigOf(t)
  const host = new FakeHost({ baseUrl: rig.url })
  const heard: string[] = []
  const first = await host.ask([USER('Hi')], { session: 'desk 1', heard })
  await host.ask([USER('Hi'), { role: 'assistant', content: first }, USER('More')], {
    session: 'desk 1',
    generic: false,
    heard,
  })
  for (const trigger of ['heartbeat', 'memory', 'cron'])
    await host.ask([USER(`${trigger}?`)], { session: 'desk 1', trigger, heard })
  await host.ask([USER('A title for this')], { session: 'desk 1', simple: true, heard })
  await host.ask([USER('Another')], { session: 'desk 2', heard })
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
    heard,
    Array.from({ length: 7 }, () => 'policy 200'),
    'who else listens for the answer hears it',
  )
})

test('without access to conversations the session is still named, and the gateway looks at the kind itself', async (t) => {
  const rig = await rigOf(t)
  await new FakeHost({ baseUrl: rig.url }, false).ask([USER('Hi')], { session: 'desk', trigger: 'heartbeat' })
  deepEqual(
    (await turnsOf(rig.log)).map(({ labelSource, kind }) => [labelSource, kind]),
    [['header', 'main']],
  )
})

test('/feedback goes to the turn that the user saw last, whatever came after it', async (t) => {
  const rig = await rigOf(t)
  const host = new FakeHost({ baseUrl: `${rig.url}/v1/` })
  const give = async (args: string | undefined, sessionId?: string): Promise<string> =>
    (await host.command.handler({ args, sessionId })).text
  await host.ask([USER('Hi')], { session: 'desk' })
  await host.ask([USER('Hi there')], { session: 'other' })
  await host.ask([USER('Anything to do?')], { session: 'desk', trigger: 'heartbeat' })
  await host.ask([USER('Title?')], { session: 'desk', simple: true })
  const [seen, other] = await turnsOf(rig.log)
  equal(host.command.name, 'feedback')
  match(await give('+', 'desk'), /^Noted: the last answer was good\.$/)
  match(await give('- too long', 'desk'), /bad, with your words/)
  match(await give('one paragraph, please', 'other'), /to be corrected, with your words/)
  deepEqual(
    (await feedbackOf(rig.log)).map(({ turn, value, comment }) => [turn, value, comment && readWritten(comment)]),
    [
      [seen!.turn, 1, null],
      [seen!.turn, -1, 'too long'],
      [other!.turn, -0.5, 'one paragraph, please'],
    ],
  )
  match(await give(undefined, 'desk'), /Say \/feedback \+/)
  match(await give('+'), /no session here yet/)
  match(await give('+', 'never heard of'), /HTTP 404/)
  equal((await feedbackOf(rig.log)).length, 3)
})

test('after a restart of OpenClaw feedback goes to the session, whose last turn it is', async (t) => {
  const rig = await rigOf(t)
  await new FakeHost({ baseUrl: rig.url }).ask([USER('Hi')], { session: 'desk' })
  match((await new FakeHost({ baseUrl: rig.url }).command.handler({ args: '-', sessionId: 'desk' })).text, /bad/)
  const [turn] = await turnsOf(rig.log)
  deepEqual(
    (await feedbackOf(rig.log)).map(({ session, turn: named, value }) => [session, named, value]),
    [[turn!.session, null, -1]],
  )
})

test('with keys: the key of the config opens the gateway, for feedback too', async (t) => {
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

test('models are those that the gateway lists, with its context; without a gateway there is still one to ask for', async (t) => {
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
  const away = new FakeHost({ baseUrl: 'http://127.0.0.1:9' })
  deepEqual(
    (await away.provider.catalog.run({})).provider.models.map(({ id }) => id),
    ['policy'],
  )
  match((await away.command.handler({ args: '+', sessionId: 'desk' })).text, /cannot be reached/)
})

test('manifest and package name what the code registers', () => {
  const read = (name: string): Record<string, unknown> =>
    JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8')) as Record<string, unknown>
  const manifest = read('openclaw.plugin.json')
  const host = new FakeHost({})
  deepEqual(
    [manifest['id'], manifest['providers'], manifest['version']],
    [plugin.id, [host.provider.id], read('package.json')['version']],
  )
})
