/** Text output of the demo: the progress line, a table of versions, answers side by side, the summary. */
import { progressBar } from '../progress-bar.ts'
import type { DemoResult } from './result.ts'

/** One verdict of the gate. `version` null: the update was rejected. */
export type VersionRow = {
  version: number | null
  reason: string | null
  loss: number
  /** Mean absolute advantage. */
  advantage: number
  klParent: number
  klBase: number
  content: number
  sessions: number
}
/** `total`: the maximum number of sessions. `converged`: sessions until convergence, null before. */
type DemoState = {
  sessions: number
  total: number
  version: number
  loss: number
  users: { name: string; share: number; converged: number | null }[]
}

/** Sessions between two lines where the output is not a terminal. */
const LINE_SESSIONS = 30

const percent = (share: number): string => `${Math.round(share * 100)}%`.padStart(4)
const fixed = (value: number, digits: number): string => (Number.isFinite(value) ? value.toFixed(digits) : '–')

/** On a terminal, one line that is overwritten; elsewhere a line every LINE_SESSIONS sessions. */
export const createProgressLine = (write: (text: string) => void): ((state: DemoState) => void) => {
  const terminal = process.stdout.isTTY
  let printedSessions = -1
  return ({ sessions, total, version, loss, users }) => {
    const userTexts = users.map(
      ({ name, share, converged }) => `${name} ${percent(share)}${converged === null ? ' ' : '✓'}`,
    )
    const text = `${progressBar(sessions / total)} ${String(sessions).padStart(3)}/${total}  v${version}  loss ${fixed(loss, 3)}  ${userTexts.join('  ')}`
    if (terminal) write(`\r\x1b[2K${text}`)
    else if (sessions >= printedSessions + LINE_SESSIONS) {
      printedSessions = sessions
      write(`${text}\n`)
    }
  }
}

const table = (header: readonly string[], rows: readonly (readonly string[])[]): string => {
  const widths = header.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] ?? '').length)))
  const line = (row: readonly string[]): string => row.map((cell, i) => cell.padStart(widths[i] ?? 0)).join('  ')
  return [line(header), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(line)].join('\n')
}

export const versionTable = (rows: readonly VersionRow[]): string =>
  table(
    ['version', 'verdict', 'sessions', 'loss', '|adv|', 'KL parent', 'KL base', 'content'],
    rows.map((row) => [
      row.version === null ? '–' : String(row.version),
      row.reason ?? 'accepted',
      String(row.sessions),
      fixed(row.loss, 3),
      fixed(row.advantage, 2),
      fixed(row.klParent, 4),
      fixed(row.klBase, 3),
      fixed(row.content, 3),
    ]),
  )

/** The answers of the base and of the head to one question of each user. */
export const answersText = (
  pairs: readonly { name: string; question: string; answers: readonly string[] }[],
): string => {
  const indented = (answer: string | undefined): string => (answer ?? '').replaceAll('\n', '\n         │ ')
  return pairs
    .map(
      ({ name, question, answers: [before, after] }) =>
        `${name}: ${question}\n  before │ ${indented(before)}\n  after  │ ${indented(after)}`,
    )
    .join('\n\n')
}

export const summaryText = (result: DemoResult): string =>
  [
    table(
      ['user', 'sessions to converge', 'first reply ok: before', 'after', 'last 24'],
      result.users.map((user) => [
        user.name,
        user.sessions_to_converge === null ? 'never' : String(user.sessions_to_converge),
        percent(user.first_reply_ok_before),
        percent(user.first_reply_ok_after),
        percent(user.last_24),
      ]),
    ),
    `content correct ${percent(result.correct_before)} → ${percent(result.correct_after)}; version ${result.versions}; ${result.requests} requests, ${result.failed_requests} failed; ${result.wall_s.toFixed(0)} s; log ${(result.log_bytes / 1e6).toFixed(1)} MB`,
  ].join('\n')
