/** What a person sees of the demo: a live line, a table per version, answers side by side. */
import type { DemoResult } from './result.ts'

export type VersionRow = {
  version: number | null
  reason: string | null
  loss: number
  advantage: number
  klParent: number
  klBase: number
  content: number
  sessions: number
}
type Live = {
  sessions: number
  total: number
  version: number
  loss: number
  users: { name: string; share: number; converged: number | null }[]
}

const WIDTH = 20

export const bar = (share: number, width = WIDTH): string => '█'.repeat(Math.round(share * width)).padEnd(width, '░')
const percent = (share: number): string => `${Math.round(share * 100)}%`.padStart(4)
const fixed = (value: number, digits: number): string => (Number.isFinite(value) ? value.toFixed(digits) : '–')

/** One line that is drawn over on a terminal, and now and then a new one elsewhere. */
export const progressBar = (write: (text: string) => void): ((live: Live) => void) => {
  const terminal = process.stdout.isTTY
  let lastSessions = -1
  return (live) => {
    const users = live.users
      .map((user) => `${user.name} ${percent(user.share)}${user.converged === null ? ' ' : '✓'}`)
      .join('  ')
    const text = `${bar(live.sessions / live.total)} ${String(live.sessions).padStart(3)}/${live.total}  v${live.version}  loss ${fixed(live.loss, 3)}  ${users}`
    if (terminal) write(`\r\x1b[2K${text}`)
    else if (live.sessions >= lastSessions + 30) {
      lastSessions = live.sessions
      write(`${text}\n`)
    }
  }
}

const table = (head: readonly string[], rows: readonly (readonly string[])[]): string => {
  const widths = head.map((name, i) => Math.max(name.length, ...rows.map((row) => (row[i] ?? '').length)))
  const draw = (row: readonly string[]): string => row.map((cell, i) => cell.padStart(widths[i] ?? 0)).join('  ')
  return [draw(head), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(draw)].join('\n')
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

export const sideBySide = (pairs: readonly { name: string; question: string; answers: string[] }[]): string =>
  pairs
    .map(
      ({ name, question, answers }) =>
        `${name}: ${question}\n  before │ ${(answers[0] ?? '').replaceAll('\n', '\n         │ ')}\n  after  │ ${(answers[1] ?? '').replaceAll('\n', '\n         │ ')}`,
    )
    .join('\n\n')

export const summary = (result: DemoResult): string =>
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
