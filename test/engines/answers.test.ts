/** What an engine says of its answer is checked before it counts as sampled, and its size is limited. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test, type TestContext } from 'node:test'
import { textModel } from '@instar/engine'
import { gate } from '../kit/scripted-engine.ts'
import { model, turnOf, turnThat, USER } from '../kit/gateway.ts'
import { QUICK, startRemoteRig, type RemoteRig } from './rig.ts'
import { ScriptedOpenai } from './scripted-openai.ts'
import { ScriptedVllm } from './scripted-vllm.ts'
import { event, type Seen } from './server.ts'

class TellingVllm extends ScriptedVllm {
  ids: readonly number[] = []
  said: number | null = -0.5
  text = 'x'
  beforeEnd: () => Promise<void> = () => Promise.resolve()

  protected override async complete(seen: Seen, response: ServerResponse): Promise<void> {
    if (this.isProbe(seen.body)) return super.complete(seen, response)
    const { ids, said: logprob } = this
    const tokens = ids.map((id) => `token_id:${id}`)
    await event(response, {
      choices: [
        {
          index: 0,
          text: this.text,
          finish_reason: 'stop',
          logprobs: { tokens, token_logprobs: ids.map(() => logprob), top_logprobs: ids.map(() => ({})) },
          token_ids: ids,
        },
      ],
    })
    await event(response, { choices: [], usage: { prompt_tokens: 1, completion_tokens: ids.length } })
    await event(response, '[DONE]')
    await this.beforeEnd()
    response.end()
  }
}

const opened = async (t: TestContext): Promise<{ server: TellingVllm; rig: RemoteRig }> => {
  const server = await new TellingVllm(model, { say: () => 'x' }).start()
  const rig = await startRemoteRig(`vllm+${server.url}/v1`, { timeouts: { ...QUICK, idleMs: 1000 } })
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  return { server, rig }
}
const chat = (rig: RemoteRig, body: object = {}): Promise<Response> =>
  rig.fetch('/v1/chat/completions', { json: { model: 'policy', messages: [USER('Hi')], ...body } })

test('an answer with tokens that cannot have been sampled is given to the client and captured with the reason, not trained on', async (t) => {
  const { server, rig } = await opened(t)
  const good = model.encode('Hello there')
  const many = (count: number): number[] => Array.from({ length: count }, () => good[0]!)
  const cases: [ids: number[], logprob: number, reason: string | null][] = [
    [good, -0.5, null],
    [good, 5e-4, null],
    [[...good, model.vocabulary - 1], -0.5, null],
    [[...good, model.vocabulary], -0.5, 'bad_ids'],
    [[...good, -3], -0.5, 'bad_ids'],
    [[...good, 2 ** 40], -0.5, 'bad_ids'],
    [good, 2e-3, 'bad_logprobs'],
    [good, 1e300, 'bad_logprobs'],
    [good, -2000, 'bad_logprobs'],
    [many(20), -0.5, null],
    [many(21), -0.5, 'too_many_ids'],
    [many(model.contextLength + 1), -0.5, 'too_many_ids'],
  ]
  for (const [ids, logprob, reason] of cases) {
    Object.assign(server, { ids, said: logprob })
    const response = await chat(rig, { max_tokens: 20 })
    assert.equal(response.status, 200)
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.deepEqual(
      [turn.type, turn.tokens, turn.trainable, turn.reason, turn.ids.length],
      ['TurnCaptured', reason === null ? 'exact' : 'none', reason === null, reason, reason === null ? ids.length : 0],
      `${ids.length} ids to ${ids.at(-1)}, ${logprob}`,
    )
  }
  assert.match(await (await rig.fetch('/metrics')).text(), /reason="bad_logprobs"[^\n]* 3/)
})

test('log-probs that the engine does not report are null for the client, not a probability of 1', async (t) => {
  const { server, rig } = await opened(t)
  const ids = model.encode('Hello there')
  Object.assign(server, { ids, said: null })
  const response = await chat(rig, { logprobs: true, top_logprobs: 1 })
  const { choices } = (await response.json()) as { choices: { logprobs: unknown }[] }
  assert.equal(choices[0]!.logprobs, null)
  const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
  assert.deepEqual([turn.tokens, turn.trainable, turn.reason], ['none', false, 'no_logprobs'])
  const stream = await (await chat(rig, { logprobs: true, stream: true })).text()
  assert.match(stream, /"logprobs":null/)
  assert.doesNotMatch(stream, /"logprobs":\{/)
  const body = { model: 'policy', prompt: 'Hi', max_tokens: 20, logprobs: 1 }
  const plain = (await (await rig.fetch('/v1/completions', { json: body })).json()) as {
    choices: { logprobs: { token_logprobs: unknown[] } }[]
  }
  assert.deepEqual(
    plain.choices[0]!.logprobs.token_logprobs,
    ids.map(() => null),
  )
})

test('an answer larger than its max_tokens allows is an error, and so is one of too many tool calls', async (t) => {
  const server = await new ScriptedOpenai(model, { say: () => 'x' }).start()
  const rig = await startRemoteRig(`openai+${server.url}/v1`, { model: textModel('policy') })
  t.after(async () => {
    await rig.stop()
    await server.kill()
  })
  const atLimit = (256 << 10) + 64 * 16
  const calls = (count: number) => Array.from({ length: count }, () => ({ name: 'f', arguments: '{}' }))
  const tools = [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }]
  for (const stream of [false, true])
    for (const [said, fits] of [
      [{ content: 'a'.repeat(atLimit) }, true],
      [{ content: 'a'.repeat(atLimit + 1) }, false],
      [{ calls: calls(128) }, true],
      [{ calls: calls(129) }, false],
    ] as const) {
      server.said = { ...said }
      const text = await (await chat(rig, { max_tokens: 16, stream, tools })).text()
      assert.equal(/engine_lost/.test(text), !fits, `${stream} ${text.slice(0, 200)}`)
    }
  assert.equal((await turnThat(rig.log, ({ type }) => type === 'TurnAborted')).trainable, false)
})

test('an answer ends at [DONE], although the engine keeps its response open', async (t) => {
  const { server, rig } = await opened(t)
  const held = gate()
  t.after(held.open)
  server.ids = model.encode('Hello there')
  server.beforeEnd = () => held.passed
  const response = await chat(rig)
  assert.equal(response.status, 200)
  assert.equal((await turnOf(rig.log, response.headers.get('x-instar-turn-id'))).tokens, 'exact')
})
