/** Streams read byte by byte: the time of each event, the comments in between, and how the stream ended. */
import type { Messages } from '../../kit/people.ts'

export type Streamed = {
  status: number
  retryAfter: string | null
  /** The error code, from the body or from the stream. */
  code: string | null
  turn: string
  session: string
  version: number
  text: string
  finish: string | null
  /** Ended with `[DONE]`. */
  done: boolean
  comments: number
  /** Milliseconds from the request to the first content and to the end. */
  firstMs: number
  endMs: number
}

type Chunk = { choices?: { delta?: { content?: string }; finish_reason?: string | null }[]; error?: { code: string } }

/** Rejects if the connection breaks. `onPiece` is called with each piece of content. */
export const streamed = async (
  url: string,
  messages: Messages,
  onPiece: () => void = () => undefined,
  maxTokens = 24,
): Promise<Streamed> => {
  const begun = performance.now()
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'policy', messages, stream: true, max_tokens: maxTokens }),
  })
  const header = (name: string): string => response.headers.get(name) ?? ''
  const result: Streamed = {
    status: response.status,
    retryAfter: response.headers.get('retry-after'),
    code: null,
    turn: header('x-instar-turn-id'),
    session: header('x-instar-session-id'),
    version: Number(header('x-instar-version')),
    text: '',
    finish: null,
    done: false,
    comments: 0,
    firstMs: 0,
    endMs: 0,
  }
  if (!response.ok) {
    result.code = ((await response.json()) as { error: { code: string } }).error.code
    return result
  }
  let rest = ''
  for await (const bytes of response.body!.pipeThrough(new TextDecoderStream())) {
    const events = (rest + bytes).split('\n\n')
    rest = events.pop()!
    for (const event of events) {
      if (event.startsWith(':')) result.comments += 1
      else if (event === 'data: [DONE]') result.done = true
      else {
        const { choices, error } = JSON.parse(event.slice('data: '.length)) as Chunk
        if (error) result.code = error.code
        const piece = choices?.[0]?.delta?.content
        if (piece) {
          result.firstMs ||= performance.now() - begun
          result.text += piece
          onPiece()
        }
        result.finish = choices?.[0]?.finish_reason ?? result.finish
      }
    }
  }
  result.endMs = performance.now() - begun
  return result
}
