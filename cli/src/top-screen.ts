/** The screen of `instar top`: the reading of `/v1/dashboard/now` as lines for a terminal. */
import { escapeControls } from '@instar/process/printable'
import { progressBar } from './progress-bar.ts'
import { TRAINER_WAITS } from './trainer-waits.ts'

type Gauge = { labels: Record<string, string>; value: number }

/** The fields of the reading that the screen shows. */
export type Reading = {
  at: string
  status: string
  problem: { message?: string } | string | null
  policy: string
  model: { name: string }
  engine: { name: string }
  head: number
  serving: number | null
  frozen: boolean
  rejections_in_a_row: number
  requests: { running: number }
  log: { failed: number; unreadable: number }
  index: { sessions: number; turns: number }
  /** Seconds; null: not known to the gateway. Absent: of an older gateway. */
  lag?: Readonly<Record<string, number | null>>
  gauges: Record<string, Gauge[]>
}

/** `columns`: width of the terminal. `colour`: escape sequences of colour may be used. `note`: a line at the end. */
export type Look = { columns: number; colour: boolean; note?: string }

const PUBLISHER_WAITS: Readonly<Record<string, string>> = {
  updates: 'waits for an update',
  start: 'measures the base model',
  evaluate: 'measures a candidate',
  append: 'writes to the log',
}

const NARROW = 60
const LABEL = 14

const valuesOf = ({ gauges }: Reading, name: string): Gauge[] => gauges[name] ?? []
const sumOf = (now: Reading, name: string): number => valuesOf(now, name).reduce((sum, { value }) => sum + value, 0)
const labelOf = (now: Reading, name: string, label: string): string | null =>
  valuesOf(now, name).find(({ value }) => value > 0)?.labels[label] ?? null

/** A service whose gauges are absent runs in another process. */
const stateOf = (code: string | null, words: Readonly<Record<string, string>>): string =>
  code === null ? 'in another process' : (words[code] ?? code.replaceAll('_', ' '))

const listOf = (now: Reading, names: readonly string[], label: string): string =>
  names
    .flatMap((name) => valuesOf(now, name))
    .toSorted((a, b) => b.value - a.value)
    .map(({ labels, value }) => `${(labels[label] ?? '').replaceAll('_', ' ')} ${value}`)
    .join(', ')

const learningText = (now: Reading): string => {
  const share = sumOf(now, 'instar_update_progress')
  const left = sumOf(now, 'instar_update_remaining_seconds')
  const needed = sumOf(now, 'instar_turns_needed')
  const pending = `${sumOf(now, 'instar_turns_pending')} scored turns wait${needed > 0 ? `, ${needed} more for a batch` : ''}`
  if (now.frozen) return `frozen (\`instar thaw\`); ${pending}`
  if (share > 0)
    return `${progressBar(share)} ${Math.round(100 * share)} %, about ${Math.ceil(left)} s left; ${pending}`
  return `${stateOf(labelOf(now, 'instar_trainer_waits', 'for'), TRAINER_WAITS)}; ${pending}`
}

const logText = (now: Reading): string => {
  const unreadable = now.log.unreadable + sumOf(now, 'instar_log_dead_letters')
  return `${now.log.failed === 0 ? 'nothing' : `${now.log.failed} answers`} lost; ${unreadable} records cannot be read`
}

/** Records are normally read within a second. */
const LATE_S = 2

/** How far each service is behind the log: those that are behind, those that are not, those of which it is not known. */
const lagText = (lag: NonNullable<Reading['lag']>): { text: string; bad: boolean } => {
  const names = (holds: (seconds: number | null) => boolean): string =>
    Object.entries(lag)
      .filter(([, seconds]) => holds(seconds))
      .map(([name, seconds]) => (seconds !== null && seconds >= LATE_S ? `${name} ${Math.round(seconds)} s` : name))
      .join(', ')
  const late = names((seconds) => seconds !== null && seconds >= LATE_S)
  const parts = [
    late && `behind: ${late}`,
    names((seconds) => seconds !== null && seconds < LATE_S) &&
      `up to date: ${names((seconds) => seconds !== null && seconds < LATE_S)}`,
    names((seconds) => seconds === null) && `unknown: ${names((seconds) => seconds === null)}`,
  ]
  return { text: parts.filter(Boolean).join('; '), bad: late !== '' }
}

type Row = { label: string; text: string; bad?: boolean }

const rowsOf = (now: Reading): Row[] => {
  const held = sumOf(now, 'instar_scorer_held')
  const replaced = labelOf(now, 'instar_judge_replaced', 'why')
  const problem = typeof now.problem === 'string' ? now.problem : (now.problem?.message ?? '')
  const loads = now.serving === now.head ? '' : `; the head, version ${now.head}, is being loaded`
  const rejected = now.rejections_in_a_row
  const untrained = listOf(now, ['instar_turns_skipped_total', 'instar_turns_dropped_total'], 'reason')
  const errors = listOf(now, ['instar_request_errors_total'], 'code')
  return [
    ...(now.status === 'ready' ? [] : [{ label: 'Problem', text: problem || now.status, bad: true }]),
    {
      label: 'Serving',
      text: `${now.serving === null ? 'no version' : `version ${now.serving}`}${loads}; ${now.requests.running} requests running`,
    },
    { label: 'Learning', text: learningText(now), bad: now.frozen },
    {
      label: 'Gate',
      text: `${stateOf(labelOf(now, 'instar_publisher_waits', 'for'), PUBLISHER_WAITS)}; ${sumOf(now, 'instar_gate_probes')} probes; ${rejected} rejected in a row`,
      bad: rejected >= 3,
    },
    {
      label: 'Judge',
      text: `${replaced === null ? '' : `replaced (${replaced}); `}${sumOf(now, 'instar_scorer_judging')} at work, ${sumOf(now, 'instar_scorer_waiting')} queued${held > 0 ? ` (${held} until a batch is sealed)` : ''}; ${sumOf(now, 'instar_turns_unscored')} turns without a score; ${sumOf(now, 'instar_scores_total')} scores`,
      bad: replaced !== null,
    },
    { label: 'Conversations', text: `${now.index.sessions} sessions, ${now.index.turns} turns` },
    ...(now.lag ? [{ label: 'Services', ...lagText(now.lag) }] : []),
    { label: 'Log', text: logText(now), bad: now.log.failed > 0 || now.log.unreadable > 0 },
    { label: 'Not trained on', text: untrained || 'none' },
    { label: 'Errors', text: errors || 'none' },
  ]
}

/** Breaks a text at spaces into lines of at most `width` characters; a longer word is cut. */
const wrapped = (text: string, width: number): string[] => {
  const lines: string[] = ['']
  for (const word of text.split(' ')) {
    const last = lines.at(-1)!
    if (last === '') lines[lines.length - 1] = word.slice(0, width)
    else if (last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word.slice(0, width))
  }
  return lines
}

/** Lines of at most `columns` characters, without the escape sequences of `colour`. */
export const screenOf = (now: Reading, { columns, colour, note }: Look): string[] => {
  const style = (code: number, text: string): string => (colour ? `\u001B[${code}m${text}\u001B[0m` : text)
  const width = Math.max(20, columns)
  // Names and reasons are others' text: no control character of them reaches the terminal.
  const clean = escapeControls
  const head = clean(
    `${now.policy} · ${now.model.name} · ${now.engine.name} · ${now.status} · ${now.at.slice(11, 19)} UTC`,
  )
  const body = rowsOf(now).flatMap(({ label, text, bad }) => {
    const mark = bad ? '! ' : '  '
    const under = width < NARROW
    const indent = under ? 4 : 2 + LABEL + 2
    const lines = wrapped(clean(text), width - indent).map((line) => (bad ? style(31, line) : line))
    return under
      ? [`${mark}${style(1, label)}`, ...lines.map((line) => `${' '.repeat(indent)}${line}`)]
      : lines.map((line, i) => `${i === 0 ? `${mark}${style(1, label.padEnd(LABEL))}  ` : ' '.repeat(indent)}${line}`)
  })
  return [
    ...wrapped(head, width).map((line) => style(1, line)),
    '',
    ...body,
    ...(note === undefined ? [] : ['', ...wrapped(clean(note), width).map((line) => style(33, line))]),
  ]
}
