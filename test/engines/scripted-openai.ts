/**
 * A server of Chat Completions with streams, reasoning and tool calls in the format of OpenAI-compatible servers; text
 * only.
 */
import type { ServerResponse } from 'node:http'
import { event, json, ScriptedServer, type Body, type Seen } from './server.ts'

export type Said = {
  content?: string
  reasoning?: string
  calls?: { name: string; arguments: string }[]
  finish?: string
}

export class ScriptedOpenai extends ScriptedServer {
  said: Said = { content: 'Hello there.' }
  key: string | null = null
  /** Responses in place of the next answers, whole or as the only event. */
  instead: string[] = []
  usage: Body = { prompt_tokens: 21, completion_tokens: 9, total_tokens: 30 }
  /** The response at /v1/embeddings; null: the path does not exist. */
  embedding: Body | null = null
  /** The response to every generation. */
  refusal: { status: number; body: unknown; retryAfter?: string } | null = null

  protected isProbe(): boolean {
    return false
  }

  protected async answer(seen: Seen, response: ServerResponse): Promise<void> {
    const { path, headers } = seen
    if (this.key !== null && headers.authorization !== `Bearer ${this.key}`)
      return json(response, 401, {
        error: {
          message: 'Incorrect API key provided.',
          type: 'invalid_request_error',
          param: null,
          code: 'invalid_api_key',
        },
      })
    if (path === '/v1/models')
      return json(response, 200, {
        object: 'list',
        data: [{ id: 'some-model', object: 'model', created: 1, owned_by: 'them' }],
      })
    if (path === '/v1/embeddings' && this.embedding)
      return this.refusal ? json(response, this.refusal.status, this.refusal.body) : json(response, 200, this.embedding)
    if (path !== '/v1/chat/completions')
      return json(response, 404, {
        error: { message: 'Unknown request URL', type: 'invalid_request_error', param: null, code: null },
      })
    const status = (await this.behaviour.admit?.(seen)) ?? 200
    if (status !== 200)
      return json(response, status, {
        error: { message: `scripted ${status}`, type: 'server_error', param: null, code: null },
      })
    if (this.refusal) {
      if (this.refusal.retryAfter !== undefined) response.setHeader('retry-after', this.refusal.retryAfter)
      return json(response, this.refusal.status, this.refusal.body)
    }
    const { content = '', reasoning = '', calls = [], finish = calls.length > 0 ? 'tool_calls' : 'stop' } = this.said
    const [instead] = this.instead.splice(0, 1)
    if (instead !== undefined && seen.body['stream'] !== true) return json(response, 200, instead)
    if (instead !== undefined) {
      await event(response, instead)
      return void response.end()
    }
    const { usage } = this
    if (seen.body['stream'] !== true) {
      await this.behaviour.before?.(0, seen)
      const message = {
        role: 'assistant',
        content: content === '' ? null : content,
        ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
        ...(calls.length === 0
          ? {}
          : { tool_calls: calls.map((call, index) => ({ id: `call_${index}`, type: 'function', function: call })) }),
      }
      return json(response, 200, {
        id: 'c1',
        object: 'chat.completion',
        created: 1,
        model: 'some-model',
        choices: [{ index: 0, message, finish_reason: finish }],
        usage,
      })
    }
    const chunk = (delta: Body, reason: string | null = null): Body => ({
      id: 'c1',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'some-model',
      choices: [{ index: 0, delta, finish_reason: reason }],
    })
    const deltas: Body[] = [
      { role: 'assistant', content: null },
      ...halves(reasoning).map((text) => ({ reasoning_content: text })),
      ...halves(content).map((text) => ({ content: text })),
      ...calls.flatMap((call, index) => [
        {
          tool_calls: [{ index, id: `call_${index}`, type: 'function', function: { name: call.name, arguments: '' } }],
        },
        ...halves(call.arguments).map((text) => ({ tool_calls: [{ index, function: { arguments: text } }] })),
      ]),
    ]
    for (const [at, delta] of deltas.entries()) {
      await this.behaviour.before?.(at, seen)
      await event(response, chunk(delta))
    }
    await event(response, chunk({}, finish))
    await event(response, { ...chunk({}), choices: [], usage })
    await event(response, '[DONE]')
    response.end()
  }
}

const halves = (text: string): string[] =>
  text === '' ? [] : [text.slice(0, text.length >> 1), text.slice(text.length >> 1)].filter((half) => half !== '')
