/** Two versions answer the same prompt side by side. These turns are recorded and never trained on. */
import { useRef, useState } from 'preact/hooks'
import type { ApiError } from '../api.ts'
import { html, type View } from '../html.ts'
import { useLive } from '../live.ts'
import { ErrorNote } from '../parts/state.ts'
import { answer } from '../stream.ts'
import { diff, words } from '../word-diff.ts'
import type { PageProps } from '../page.ts'

type Side = { text: string; done: boolean; error: ApiError | null }
const EMPTY: Side = { text: '', done: false, error: null }

const Answer = ({
  side,
  other,
  version,
  mine,
}: {
  side: Side
  other: Side
  version: string
  mine: 'a' | 'b'
}): View => {
  const both = side.done && other.done
  const runs = both
    ? mine === 'a'
      ? diff(words(side.text), words(other.text))
      : diff(words(other.text), words(side.text))
    : []
  return html`
    <section class="card" aria-label=${`Answer of version ${version}`}><h2>Version ${version}</h2>
      ${side.error ? html`<${ErrorNote} error=${side.error} />` : null}
      <div class="text" aria-live="polite">${both ? runs.filter((run) => run.in !== (mine === 'a' ? 'b' : 'a')).map((run) => (run.in === 'both' ? run.text : html`<mark>${run.text}</mark>`)) : side.text || '…'}</div>
    </section>
  `
}

export const ComparePage = ({ query }: PageProps): View => {
  const { now } = useLive()
  const [prompt, setPrompt] = useState(query.get('prompt') ?? 'What is the capital of France?')
  const [a, setA] = useState(query.get('a') ?? '')
  const [b, setB] = useState(query.get('b') ?? '0')
  const [temperature, setTemperature] = useState('0.7')
  const [seed, setSeed] = useState('1')
  const [left, setLeft] = useState<Side | null>(null)
  const [right, setRight] = useState<Side | null>(null)
  const running = useRef<AbortController | null>(null)
  const busy = (left !== null && !left.done) || (right !== null && !right.done)
  if (!now) return html`<h1>Compare</h1><p class="note quiet" aria-busy="true">Waiting for the gateway…</p>`
  const first = a === '' ? String(now.head) : a
  const ask = async (version: string, set: (side: Side) => void, signal: AbortSignal): Promise<void> => {
    set(EMPTY)
    let text = ''
    try {
      await answer(
        {
          model: `${now.policy}@${version}`,
          messages: [{ role: 'user', content: prompt }],
          temperature: Number(temperature),
          seed: Number(seed),
          max_tokens: 512,
        },
        { 'x-instar-no-train': '1' },
        (soFar) => set({ text: (text = soFar), done: false, error: null }),
        signal,
      )
      set({ text, done: true, error: null })
    } catch (error) {
      if (!signal.aborted) set({ text, done: true, error: error as ApiError })
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
    <p class="quiet">Two versions answer one prompt with the same seed. What differs is marked. These answers are
      recorded and never trained on.</p>
    <form class="filters" onSubmit=${run}>
      <label class="wide">Prompt<textarea rows="3" required value=${prompt}
        onInput=${input(setPrompt)}></textarea></label>
      <label>Version<input type="number" min="0" max=${now.last_version} required value=${first}
        onInput=${input(setA)} /></label>
      <label>and version<input type="number" min="0" max=${now.last_version} required value=${b}
        onInput=${input(setB)} /></label>
      <label>Temperature<input type="number" min="0" max="2" step="0.1" value=${temperature}
        onInput=${input(setTemperature)} /></label>
      <label>Seed<input type="number" min="0" max="1000000" value=${seed} onInput=${input(setSeed)} /></label>
      <div class="row end"><button class="primary" disabled=${busy}>${busy ? 'Answering…' : 'Ask both'}</button></div>
    </form>
    ${
      left && right
        ? html`<div class="cards two"><${Answer} side=${left} other=${right} version=${first}
      mine="a" /><${Answer} side=${right} other=${left} version=${b} mine="b" /></div>`
        : null
    }
  `
}
