/** After the first version of a line: what changed, until it is dismissed. That is remembered by this browser. */
import { useEffect, useState } from 'preact/hooks'
import { useData } from '../api.ts'
import { count, number, reward } from '../format.ts'
import { html, type View } from '../html.ts'
import { useLivePart } from '../live.ts'
import type { Lineage, VersionRow } from '../rows.ts'

const KEY = 'instar first version'
/** Milliseconds from a reading to the next one, and that a reading may take. */
const AGAIN_MS = 1_000
const READING_MS = 10_000
/** With more versions the first is no news. */
const NEWS = 3

/** A browser may refuse to keep anything. */
const remembered = (): string | null => {
  try {
    return localStorage.getItem(KEY)
  } catch {
    return null
  }
}

const remember = (line: string): void => {
  try {
    localStorage.setItem(KEY, line)
  } catch {
    // It is shown again after the page is loaded again.
  }
}

const FIGURES: readonly (readonly [name: string, of: (row: VersionRow) => number | null, text: typeof number])[] = [
  ['mean reward', (row) => row.reward, (value) => reward(value)],
  ['probes answered', (row) => row.content, (value) => number(value, 3)],
  ['mean length in tokens', (row) => row.sampled_length, (value) => number(value, 1)],
]

/** Of the figures that both have: `length 20.1, was 23.4`. */
const changes = (first: VersionRow, base: VersionRow): string =>
  FIGURES.filter(([, of]) => of(first) !== null && of(base) !== null)
    .map(([name, of, text]) => `${name} ${text(of(first))}, was ${text(of(base))}`)
    .join('; ')

const Figures = ({ rows }: { rows: readonly VersionRow[] }): View => {
  const [first, base] = [1, 0].map((version) => rows.find((row) => row.version === version))
  if (!first || !base) return null
  const said = changes(first, base)
  return html`<p>It was trained on ${count(first.trained_turns)} turns with a mean reward of
    ${' '}${reward(first.trained_reward)}, and answers otherwise than the base model by
    ${' '}${number(first.kl_parent, 3)} nats per token.${said ? ` Beside the base: ${said}.` : ''}</p>`
}

export const FirstVersion = (): View => {
  const line = useLivePart(({ now }) => now?.started_at ?? null)
  const last = useLivePart(({ now }) => now?.last_version ?? 0)
  const [dismissed, setDismissed] = useState(remembered)
  const shown = line !== null && last > 0 && last <= NEWS && dismissed !== line
  const lineage = useData<Lineage>(shown ? 'versions' : null)
  // The gateway has the version before the read model, which follows the log.
  const { data, error, reads, reload } = lineage
  const isWaiting = shown && (data === null ? error === null : !data.versions.some(({ version }) => version === 1))
  useEffect(() => {
    if (!isWaiting) return undefined
    let timer: ReturnType<typeof setTimeout>
    const again = (): void => {
      reload()
      timer = setTimeout(again, READING_MS)
    }
    timer = setTimeout(again, reads === 0 ? READING_MS : AGAIN_MS)
    return () => clearTimeout(timer)
  }, [isWaiting, reads, reload])
  if (!shown) return null
  return html`
    <section class="note banner" aria-label="First version">
      <div class="row">
        <strong>The model has learned: version 1 is there.</strong><span class="grow"></span>
        <button class="small" onClick=${() => {
          remember(line)
          setDismissed(line)
        }}>Dismiss</button>
      </div>
      ${data ? html`<${Figures} rows=${data.versions} />` : null}
      <p><a href="#/compare?a=1&b=0">Compare their answers</a> · <a href="#/versions/1">What it was trained on</a></p>
    </section>
  `
}
