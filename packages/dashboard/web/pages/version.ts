/** One version: its figures beside its parent's or another version's, the gate's limits, and the turns of its batch. */
import { useContext, useState } from 'preact/hooks'
import { get, useData, type ApiError } from '../api.ts'
import { duration, number, reward, shortId, time } from '../format.ts'
import { html, type View } from '../html.ts'
import { useLivePart } from '../live.ts'
import { Confirm, type Action } from '../parts/confirm.ts'
import { Await, ErrorNote } from '../parts/state.ts'
import { Table } from '../parts/table.ts'
import { status, untrained } from '../reasons.ts'
import type { BatchTurnRow, VersionRow } from '../rows.ts'
import type { PageProps } from '../page.ts'
import { SessionContext } from '../session-context.ts'
import { interval, Interval, rollback } from './versions.ts'

type Turns = { rows: BatchTurnRow[]; next: number | null }
type Whole = {
  version: VersionRow
  limits: Record<string, number> | null
  turns: BatchTurnRow[]
  next: number | null
}

const FIGURES: readonly (readonly [name: string, of: (row: VersionRow) => string])[] = [
  ['Reward of its answers', (row) => `${reward(row.reward)}${row.reward_low === null ? '' : ` (${interval(row)})`}`],
  ['Answers', (row) => number(row.turns, 0)],
  ['Share of probes answered', (row) => number(row.content, 3)],
  ['KL to the parent, nats per token', (row) => number(row.kl_parent, 4)],
  ['KL to the base, nats per token', (row) => number(row.kl_base, 4)],
  ['Entropy, nats per token', (row) => number(row.entropy, 3)],
  ['Mean length of samples, tokens', (row) => number(row.sampled_length, 1)],
  ['Share of repeated 4-grams', (row) => number(row.repetition, 3)],
  ['Mean tokens of its answers', (row) => number(row.completion_tokens, 1)],
  [
    'Latency p50, p99',
    (row) => (row.latency_p50_ms === null ? '–' : `${duration(row.latency_p50_ms)}, ${duration(row.latency_p99_ms)}`),
  ],
  ['Turns trained on', (row) => number(row.trained_turns, 0)],
  ['Mean reward of those', (row) => reward(row.trained_reward)],
  ['Gradient norm', (row) => number(row.grad_norm, 3)],
  [
    'Tokens of its update: forward, teacher, forward and backward',
    (row) =>
      row.backward_prompt_tokens === null
        ? '–'
        : [
            (row.forward_prompt_tokens ?? 0) + (row.forward_response_tokens ?? 0),
            row.teacher_tokens,
            row.backward_prompt_tokens + (row.backward_response_tokens ?? 0),
          ]
            .map((tokens) => number(tokens, 0))
            .join(', '),
  ],
]

/** The turns of the batch, further ones when asked for. */
const Batch = ({ version, first }: { version: number; first: Turns }): View => {
  const [more, setMore] = useState<Turns[]>([])
  const [error, setError] = useState<ApiError | null>(null)
  const pages = [first, ...more]
  const { next } = pages.at(-1)!
  const rows = pages.flatMap((page) => page.rows)
  const load = async (): Promise<void> => {
    setError(null)
    try {
      const page = await get<Turns>(`/v1/dashboard/versions/${version}/turns?after=${next}`)
      setMore((all) => [...all, page])
    } catch (failure) {
      setError(failure as ApiError)
    }
  }
  return html`
    <${Table} caption="Turns of the batch" empty="Nothing: it is the base model, or a branch’s start."
      rows=${rows} all=${more.length > 0} columns=${[
        {
          name: 'Turn',
          of: (turn: BatchTurnRow) =>
            html`<a href=${`#/turns/${encodeURIComponent(turn.turn_id)}`}><code>${shortId(turn.turn_id)}</code></a>`,
        },
        { name: 'Sampled by', numeric: true, of: (turn: BatchTurnRow) => turn.version ?? '–' },
        { name: 'Reward', numeric: true, of: (turn: BatchTurnRow) => reward(turn.reward) },
        { name: 'Baseline', numeric: true, of: (turn: BatchTurnRow) => reward(turn.baseline) },
        { name: 'Advantage', numeric: true, of: (turn: BatchTurnRow) => reward(turn.advantage) },
        { name: 'Hint', of: (turn: BatchTurnRow) => turn.hint ?? '' },
        { name: 'Used', of: (turn: BatchTurnRow) => (turn.used ? 'yes' : untrained(turn.reason)) },
      ]} />
    ${error ? html`<${ErrorNote} error=${error} />` : null}
    ${
      next === null
        ? null
        : html`<p><span class="quiet">The first ${number(rows.length, 0)} turns of the batch.</span> <button
            onClick=${load}>Further turns of the batch</button></p>`
    }
  `
}

export const VersionPage = ({ params, query }: PageProps): View => {
  const version = Number(params[0])
  const whole = useData<Whole>(`versions/${version}`)
  const asked = query.get('with')
  const other = asked === null ? (whole.data?.version.parent ?? -1) : Number(asked)
  const second = useData<Whole>(other < 0 ? null : `versions/${other}`)
  const session = useContext(SessionContext)
  const head = useLivePart(({ now }) => now?.head ?? null)
  const [action, setAction] = useState<Action | null>(null)
  return html`
    <p><a href="#/versions">Versions</a></p>
    <${Await} from=${whole} title=${`Version ${version}`} of=${({ version: row, limits, turns, next }: Whole) => {
      const beside = second.data?.version ?? null
      const gate = row.gate_figures ?? {}
      const names = [...new Set([...Object.keys(gate), ...Object.keys(limits ?? {})])].toSorted()
      return html`
        <div class="row"><h1>Version ${row.version}</h1><span
          class=${`tag ${row.status}`}>${row.status.replace('_', ' ')}</span><span class="grow"></span>
          <a class="button" href=${`#/compare?a=${row.version}&b=${other < 0 ? 0 : other}`}>Compare answers</a>
          ${
            session?.may?.actions && head !== null && head !== row.version
              ? html`<button onClick=${() => setAction(rollback(row, head))}>Serve this version</button>`
              : null
          }</div>
        <p>${status(row.status)}. ${
          row.parent === null
            ? 'The base model.'
            : html`It grew from <a href=${`#/versions/${row.parent}`}>version ${row.parent}</a> by an ${row.why},
            published ${time(row.published_at)}.`
        }
          ${
            row.head_from
              ? ` It served from ${time(row.head_from)} ${row.head_to ? `to ${time(row.head_to)}` : 'until now'}.`
              : null
          }
          ${row.reward === null ? null : html`${' '}Mean reward of its answers: <${Interval} row=${row} />.`}</p>
        <h2>Figures${beside ? ` beside version ${beside.version}` : ''}</h2>
        <${Table} caption="Figures" rows=${FIGURES} columns=${[
          { name: 'Figure', of: ([name]: (typeof FIGURES)[number]) => name },
          { name: `Version ${row.version}`, numeric: true, of: ([, of]: (typeof FIGURES)[number]) => of(row) },
          ...(beside
            ? [
                {
                  name: `Version ${beside.version}`,
                  numeric: true,
                  of: ([, of]: (typeof FIGURES)[number]) => of(beside),
                },
              ]
            : []),
        ]} />
        ${
          names.length > 0
            ? html`<details><summary>All figures and limits of the gate</summary><${Table} caption="Gate" rows=${names}
              columns=${[
                { name: 'Name', of: (name: string) => html`<code>${name}</code>` },
                { name: 'Measured', numeric: true, of: (name: string) => number(gate[name], 4) },
                { name: 'Limit', numeric: true, of: (name: string) => number(limits?.[name], 4) },
              ]} /></details>`
            : null
        }
        ${
          row.update_figures
            ? html`<details><summary>All figures of the update</summary><${Table} caption="Update"
              rows=${Object.entries(row.update_figures)} columns=${[
                { name: 'Name', of: ([name]: [string, number]) => html`<code>${name}</code>` },
                { name: 'Value', numeric: true, of: ([, value]: [string, number]) => number(value, 4) },
              ]} /></details>`
            : null
        }
        <h2>What it was trained on</h2>
        <${Batch} key=${row.version} version=${row.version} first=${{ rows: turns, next }} />
      `
    }} />
    ${
      action
        ? html`<${Confirm} action=${action} done=${(happened: boolean) => {
            setAction(null)
            if (happened) whole.reload()
          }} />`
        : null
    }
  `
}
