/** The JSON of a completion that is not streamed, written in slices. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completionJson, TOKENS_AT_ONCE } from './completion-json.ts'
import { completionUsage, type CompletionChoice, type CompletionHead } from './core/text-completion.ts'

const HEAD: CompletionHead = {
  id: 'cmpl-1',
  object: 'text_completion',
  created: 1,
  model: 'policy',
  system_fingerprint: 'instar-policy@0',
}
const usage = completionUsage(3, 4)
const never = new AbortController().signal

/** `from`: of the first token. */
const piece = (
  index: number,
  from: number,
  count: number,
  top: number,
  finish: 'stop' | null = null,
): CompletionChoice => {
  const ids = Array.from({ length: count }, (_, at) => from + at)
  return {
    text: ids.map((id) => `"${id}é\n`).join(''),
    index,
    logprobs: {
      tokens: ids.map((id) => `"${id}é\n`),
      token_logprobs: ids.map((id) => (id === 0 ? null : -1 / (1 + id))),
      top_logprobs: ids.map((id) =>
        id === 0 ? null : Object.fromEntries(Array.from({ length: top }, (_, k) => [`${id} ${k}`, -k / 3])),
      ),
      text_offset: ids.map((id) => 5 * id),
    },
    finish_reason: finish,
  }
}

const joined = (pieces: readonly CompletionChoice[]): object => {
  const list = (name: keyof NonNullable<CompletionChoice['logprobs']>) =>
    pieces.flatMap(({ logprobs }) => (logprobs?.[name] ?? []) as unknown[])
  const { index, logprobs, finish_reason } = pieces.at(-1)!
  return {
    text: pieces.map(({ text }) => text).join(''),
    index,
    logprobs: logprobs && {
      tokens: list('tokens'),
      token_logprobs: list('token_logprobs'),
      top_logprobs: list('top_logprobs'),
      text_offset: list('text_offset'),
    },
    finish_reason,
  }
}

test('it is the JSON of one object, whatever the pieces are', async () => {
  const plain = { ...piece(1, 0, 2, 0, 'stop'), logprobs: null }
  for (const choices of [
    [[plain]],
    [
      [piece(0, 0, 1, 3), piece(0, 1, 700, 3), piece(0, 701, 0, 0, 'stop')],
      [plain, plain],
      [piece(2, 0, 0, 0, 'stop')],
    ],
  ]) {
    const bytes = await completionJson({ head: HEAD, choices, usage }, never)
    assert.equal(String(bytes), JSON.stringify({ ...HEAD, choices: choices.map(joined), usage }))
  }
})

test('other requests are served between slices of 200,000 log-probs, also where an engine sends all at once', async (t) => {
  let passes = 0
  let next: NodeJS.Immediate
  const pass = (): void => {
    passes += 1
    next = setImmediate(pass)
  }
  next = setImmediate(pass)
  t.after(() => clearImmediate(next))
  const tokens = 10_000
  const bytes = await completionJson({ head: HEAD, choices: [[piece(0, 0, tokens, 20, 'stop')]], usage }, never)
  assert.ok(bytes.length > 2_000_000)
  // Four lists.
  assert.ok(passes >= 4 * Math.floor(tokens / TOKENS_AT_ONCE), `${passes} passes`)
})

test('once the client has gone, nothing more is written', async () => {
  const gone = new AbortController()
  const why = new Error('gone')
  const writing = completionJson({ head: HEAD, choices: [[piece(0, 0, 5000, 1, 'stop')]], usage }, gone.signal)
  gone.abort(why)
  await assert.rejects(writing, why)
})
