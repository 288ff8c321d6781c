/** Asks the model through Chat Completions and reads the streamed answer. */
import { ApiError, call } from './api.ts'

export type Answered = { text: string; turn: string | null; version: number | null }

/** `body`: a request of Chat Completions. `onText`: the text so far. Throws `ApiError`. */
export const answer = async (
  body: Readonly<Record<string, unknown>>,
  headers: Readonly<Record<string, string>>,
  onText: (text: string) => void,
  signal?: AbortSignal,
): Promise<Answered> => {
  const response = await call('/v1/chat/completions', {
    method: 'POST',
    body: JSON.stringify({ ...body, stream: true }),
    headers,
    ...(signal ? { signal } : {}),
  })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let text = ''
  let turn: string | null = response.headers.get('x-instar-turn-id')
  for (;;) {
    const { done, value } = await reader.read()
    if (done) break
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      if (!line.startsWith('data: ') || line === 'data: [DONE]') continue
      const chunk = JSON.parse(line.slice(6)) as {
        id?: string
        error?: { message: string; code?: string }
        choices?: { delta?: { content?: string | null } }[]
      }
      if (chunk.error) throw new ApiError(chunk.error.message, chunk.error.code ?? 'unknown', 200)
      turn ??= chunk.id ?? null
      const more = chunk.choices?.[0]?.delta?.content
      if (more) onText((text += more))
    }
  }
  const version = response.headers.get('x-instar-version')
  return { text, turn, version: version === null ? null : Number(version) }
}
