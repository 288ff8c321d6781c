/** Asks the model through Chat Completions and reads the streamed answer. */
import { ApiError, call } from './api.ts'

export type Answered = { text: string; turn: string | null; version: number | null }

/** `id`: of the token; a word of an engine that tells no tokens has none. */
export type SampledToken = { id: number | null; text: string; logprob: number | null }

/** The `data:` lines of a stream of events as JSON, until its end or `[DONE]`. */
async function* eventsOf<T>(response: Response): AsyncGenerator<T> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines)
      if (line.startsWith('data: ') && line !== 'data: [DONE]') yield JSON.parse(line.slice(6)) as T
  }
}

/** `body`: as of `/v1/dashboard/sample`. `onTokens`: the tokens so far. Throws `ApiError`. */
export const sampled = async (
  body: Readonly<Record<string, unknown>>,
  onTokens: (tokens: readonly SampledToken[]) => void,
  signal: AbortSignal,
): Promise<void> => {
  const response = await call('/v1/dashboard/sample', { method: 'POST', body: JSON.stringify(body), signal })
  const tokens: SampledToken[] = []
  type Piece = { tokens?: SampledToken[]; text?: string; error?: { message: string; code: string } }
  for await (const piece of eventsOf<Piece>(response)) {
    if (piece.error) throw new ApiError(piece.error.message, piece.error.code, 200)
    tokens.push(...(piece.tokens ?? []))
    // The text that the engine held back until it knew how the answer ends.
    if (piece.text) tokens.push({ id: null, text: piece.text, logprob: null })
    onTokens([...tokens])
  }
}

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
  let text = ''
  let turn: string | null = response.headers.get('x-instar-turn-id')
  type Chunk = {
    id?: string
    error?: { message: string; code?: string }
    choices?: { delta?: { content?: string | null } }[]
  }
  for await (const chunk of eventsOf<Chunk>(response)) {
    if (chunk.error) throw new ApiError(chunk.error.message, chunk.error.code ?? 'unknown', 200)
    turn ??= chunk.id ?? null
    const more = chunk.choices?.[0]?.delta?.content
    if (more) onText((text += more))
  }
  const version = response.headers.get('x-instar-version')
  return { text, turn, version: version === null ? null : Number(version) }
}
