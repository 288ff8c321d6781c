/** The response of `/v1/completions` that is not streamed, as JSON that is written while other requests are served. */
import { setImmediate as nextPass } from 'node:timers/promises'
import type { CompletionChoice, CompletionHead, completionUsage } from './core/text-completion.ts'

type Logprobs = NonNullable<CompletionChoice['logprobs']>
/** In the order of the response. */
const LISTS = ['tokens', 'token_logprobs', 'top_logprobs', 'text_offset'] as const satisfies readonly (keyof Logprobs)[]

/** Tokens that are written at once: with 20 alternatives each some 5,000 log-probs, which take about 8 ms. */
export const TOKENS_AT_ONCE = 256

type Whole = {
  head: CompletionHead
  /** The pieces of each choice, at least one. */
  choices: readonly (readonly CompletionChoice[])[]
  usage: ReturnType<typeof completionUsage>
}

/** UTF-8. Equal to that of one object in which the pieces of each choice are joined. Throws the reason of `signal`. */
export const completionJson = async ({ head, choices, usage }: Whole, signal: AbortSignal): Promise<Buffer> => {
  const written: Buffer[] = []
  let text = `${JSON.stringify(head).slice(0, -1)},"choices":[`
  let tokens = 0
  const add = async (part: string, count: number): Promise<void> => {
    text += part
    tokens += count
    if (tokens < TOKENS_AT_ONCE) return
    written.push(Buffer.from(text))
    text = ''
    tokens = 0
    await nextPass()
    signal.throwIfAborted()
  }
  for (const [at, pieces] of choices.entries()) {
    const { index, logprobs, finish_reason } = pieces.at(-1)!
    const said = pieces.map((piece) => piece.text).join('')
    await add(`${at === 0 ? '' : ','}{"text":${JSON.stringify(said)},"index":${index},"logprobs":`, 1)
    if (logprobs === null) await add('null', 0)
    else
      for (const [list, name] of LISTS.entries()) {
        await add(`${list === 0 ? '{' : '],'}"${name}":[`, 0)
        let isFirst = true
        for (const values of slices(pieces, name)) {
          await add(`${isFirst ? '' : ','}${JSON.stringify(values).slice(1, -1)}`, values.length)
          isFirst = false
        }
      }
    await add(`${logprobs === null ? '' : ']}'},"finish_reason":${JSON.stringify(finish_reason)}}`, 0)
  }
  written.push(Buffer.from(`${text}],"usage":${JSON.stringify(usage)}}`))
  return Buffer.concat(written)
}

/** The values of a list in the order of the tokens, some at a time. */
function* slices(pieces: readonly CompletionChoice[], name: keyof Logprobs): Generator<readonly unknown[]> {
  for (const { logprobs } of pieces) {
    const values: readonly unknown[] = logprobs?.[name] ?? []
    for (let from = 0; from < values.length; from += TOKENS_AT_ONCE) yield values.slice(from, from + TOKENS_AT_ONCE)
  }
}
