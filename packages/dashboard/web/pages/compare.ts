/** Two versions answer the same prompt side by side, token by token. Nothing of it is recorded. */
import { useContext, useRef, useState } from 'preact/hooks'
import { useData, type ApiError } from '../api.ts'
import { number } from '../format.ts'
import { html, type View } from '../html.ts'
import { useLivePart } from '../live.ts'
import { HistoryPrompt } from '../parts/prompt-choice.ts'
import { ErrorNote } from '../parts/state.ts'
import { Tokens, visible, type ShownToken } from '../parts/tokens.ts'
import { weightsName, weightsOf, WeightsChoice } from '../parts/weights-choice.ts'
import type { Lineage } from '../rows.ts'
import { SessionContext } from '../session-context.ts'
import { answer, sampled, type SampledToken } from '../stream.ts'
import { agreeing, differing, words } from '../token-diff.ts'
import type { PageProps } from '../page.ts'

type Side = { name: string; tokens: readonly SampledToken[]; done: boolean; error: ApiError | null }

/** What is compared: ids where there are some. */
const keyOf = ({ id, text }: SampledToken): number | string => id ?? text
const chance = ({ logprob }: SampledToken): string =>
  logprob === null ? '' : ` (${number(100 * Math.exp(logprob), 0)} %)`
const quoted = (token: SampledToken | undefined): string =>
  token === undefined
    ? 'has ended'
    : token.text === ''
      ? `ends${chance(token)}`
      : `says “${visible(token.text).trimEnd()}”${chance(token)}`

/** In words: how far both agree, and what comes then. */
const summary = (a: Side, b: Side): string => {
  const [left, right] = [a.tokens.map(keyOf), b.tokens.map(keyOf)]
  const same = agreeing(left, right)
  if (same === left.length && same === right.length) return `Both gave the same answer: ${same} equal tokens.`
  const [first, second] = [a.name, b.name].map((name) => name[0]!.toLowerCase() + name.slice(1))
  const marks = differing(left, right)
  const count = (of: readonly boolean[]): string => `${of.filter(Boolean).length} of ${of.length}`
  const until =
    same === 0
      ? 'They differ from the first token on'
      : `The first ${same === 1 ? 'token is' : `${same} tokens are`} equal`
  const then = `${first} ${quoted(a.tokens[same])}, ${second} ${quoted(b.tokens[same])}`
  return `${until}: ${then}. Marked are tokens that the other answer lacks: ${count(marks.a)}, and ${count(marks.b)}.`
}

const shown = (tokens: readonly SampledToken[], marks: readonly boolean[]): ShownToken[] =>
  tokens.map(({ id, text, logprob }, i) => ({
    text,
    shade: 0,
    differs: marks[i] ?? false,
    figures: [
      ['log-prob when sampled', logprob],
      ['token id', id === null ? 'not told' : String(id)],
      ['in the other answer', marks[i] ? 'no' : 'yes'],
    ],
  }))

const Answer = ({ side, marks }: { side: Side; marks: readonly boolean[] | null }): View => {
  const label = `Answer of ${side.name}`
  return html`
    <section class="card" aria-label=${label}><h2>${side.name}</h2>
      ${side.error ? html`<${ErrorNote} error=${side.error} />` : null}
      ${
        marks && side.tokens.length > 0
          ? html`<${Tokens} stacked first=${Math.max(0, marks.indexOf(true))} label=${label}
              tokens=${shown(side.tokens, marks)} />`
          : html`<div class="text">${side.tokens.map(({ text }) => text).join('') || (side.done ? '' : '…')}</div>`
      }
      <p class="quiet">${side.done ? `${side.tokens.length} tokens` : 'Answering…'}</p>
    </section>
  `
}

const Both = ({ a, b }: { a: Side; b: Side }): View => {
  const done = a.done && b.done
  const marks = done ? differing(a.tokens.map(keyOf), b.tokens.map(keyOf)) : null
  const said = (a.error ?? b.error) ? 'Not both answered.' : summary(a, b)
  return html`
    <p class="note" role="status">${done ? said : 'Answering…'}</p>
    <div class="cards two"><${Answer} side=${a} marks=${marks?.a ?? null} /><${Answer} side=${b}
      marks=${marks?.b ?? null} /></div>
  `
}

export const ComparePage = ({ query }: PageProps): View => {
  const text = useContext(SessionContext)?.may?.text ?? false
  const head = useLivePart(({ now }) => now?.head ?? null)
  const last = useLivePart(({ now }) => now?.last_version ?? 0)
  const policy = useLivePart(({ now }) => now?.policy ?? '')
  const lineage = useData<Lineage>('versions')
  const [typed, setTyped] = useState(query.get('prompt') ?? 'What is the capital of France?')
  const [turn, setTurn] = useState(query.get('turn'))
  const [history, setHistory] = useState(turn !== null)
  const [a, setA] = useState(query.get('a') ?? '')
  const [b, setB] = useState(query.get('b') ?? '0')
  const [temperature, setTemperature] = useState('0.7')
  const [seed, setSeed] = useState('1')
  const [left, setLeft] = useState<Side | null>(null)
  const [right, setRight] = useState<Side | null>(null)
  const running = useRef<AbortController | null>(null)
  const busy = (left !== null && !left.done) || (right !== null && !right.done)
  if (head === null) return html`<h1>Compare</h1><p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
  const first = a === '' ? String(head) : a

  /** An engine that takes messages alone answers through Chat Completions, where the answer is recorded. */
  const throughChat = async (version: string, onTokens: (tokens: SampledToken[]) => void, signal: AbortSignal) => {
    const asked = {
      model: `${policy}@${version}`,
      messages: [{ role: 'user', content: typed }],
      temperature: Number(temperature),
      seed: Number(seed),
      max_tokens: 512,
    }
    await answer(
      asked,
      { 'x-instar-no-train': '1' },
      (soFar) => onTokens(words(soFar).map((word) => ({ id: null, text: word, logprob: null }))),
      signal,
    )
  }
  const ask = async (weights: string, set: (side: Side) => void, signal: AbortSignal): Promise<void> => {
    let side: Side = { name: weightsName(weights), tokens: [], done: false, error: null }
    const change = (next: Partial<Side>): void => set((side = { ...side, ...next }))
    const onTokens = (tokens: readonly SampledToken[]): void => change({ tokens })
    change({})
    try {
      const prompt = history && turn !== null ? { turn } : { text: typed }
      const asked = { weights: weightsOf(weights), prompt, temperature: Number(temperature), seed: Number(seed) }
      await sampled(asked, onTokens, signal).catch((error: unknown) => {
        if ((error as ApiError).code !== 'not_available' || history || !/^\d+$/.test(weights)) throw error
        return throughChat(weights, onTokens, signal)
      })
      change({ done: true })
    } catch (error) {
      if (!signal.aborted) change({ done: true, error: error as ApiError })
    }
  }
  const run = (event: Event): void => {
    event.preventDefault()
    running.current?.abort()
    running.current = new AbortController()
    void ask(first, setLeft, running.current.signal)
    void ask(b, setRight, running.current.signal)
  }
  const input = (set: (value: string) => void) => (event: Event) => set((event.target as HTMLInputElement).value)
  return html`
    <h1>Compare</h1>
    <p class="quiet">Two versions answer one prompt with the same seed. What differs is marked, token by token. Nothing
      is recorded or trained on.</p>
    <form onSubmit=${run}>
      <fieldset><legend>Prompt</legend>
        <div class="row">
          <label class="check row"><input type="radio" name="of" checked=${!history}
            onChange=${() => setHistory(false)} /> typed here</label>
          ${
            text
              ? html`<label class="check row"><input type="radio" name="of" checked=${history}
                  onChange=${() => setHistory(true)} /> from history</label>`
              : html`<span class="quiet">Prompts of the history need the scope read.</span>`
          }
        </div>
        ${
          history
            ? html`<${HistoryPrompt} turn=${turn} onChoose=${setTurn} />`
            : html`<label class="wide">What to ask<textarea rows="3" required maxlength="20000" value=${typed}
                onInput=${input(setTyped)}></textarea></label>`
        }
      </fieldset>
      <div class="filters">
        <${WeightsChoice} label="One answer by" chosen=${first} lineage=${lineage.data} last=${last} onChoose=${setA} />
        <${WeightsChoice} label="The other by" chosen=${b} lineage=${lineage.data} last=${last} onChoose=${setB} />
        <label>Temperature<input type="number" min="0" max="2" step="0.1" value=${temperature}
          onInput=${input(setTemperature)} /></label>
        <label>Seed<input type="number" min="0" max="1000000" value=${seed} onInput=${input(setSeed)} /></label>
        <div class="row end"><button class="primary" disabled=${busy || (history && turn === null)}>
          ${busy ? 'Answering…' : 'Ask both'}</button></div>
      </div>
    </form>
    ${left && right ? html`<${Both} a=${left} b=${right} />` : null}
  `
}
