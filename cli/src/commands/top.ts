import { InstarError } from '@instar/events/errors'
import { setTimeout as delay } from 'node:timers/promises'
import { requestAdmin } from '../admin-client.ts'
import { command, UsageError } from '../command.ts'
import { screenOf, type Reading } from '../top-screen.ts'

/** Another screen without a cursor, so that the terminal is as before when the command ends. */
const [ENTER, LEAVE] = ['\u001B[?1049h\u001B[?25l', '\u001B[?25h\u001B[?1049l']
const [HOME, CLEAR_LINE, CLEAR_BELOW] = ['\u001B[H', '\u001B[K', '\u001B[J']

const TIMEOUT_MS = 10_000
const NO_TERMINAL_COLUMNS = 100

const secondsOf = (text: string): number => {
  const seconds = Number(text)
  if (!(seconds >= 0.2 && seconds <= 3600))
    throw new UsageError(`--every ${text} is not a number of seconds, 0.2 to 3600`)
  return seconds
}

export default command('top', {
  usage: '[--every SECONDS]',
  help: `
Shows in the terminal what the pipeline does now, as the page Now of the dashboard, until Ctrl+C: what serves, the update
that is computed, the gate, the judge, turns that are not trained on and why, errors. A line that begins with ! needs
attention. Where the output is no terminal it is printed once.

  --every SECONDS  time between two readings (default 1)

The scope of an API key: read or admin. NO_COLOR switches colours off.

--json: one reading, as GET /v1/dashboard/now`,
  options: { every: { type: 'string', default: '1' } },
  overrides: ['host', 'port'],
  async run({ config, values, json, print, env, terminal, columns, stop, raw }) {
    const everyMs = 1000 * secondsOf(values.every)
    const read = (): Promise<Reading> =>
      requestAdmin<Reading>(config, '/v1/dashboard/now', undefined, { timeoutMs: TIMEOUT_MS })
    let now = await read()
    const colour = terminal && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
    const screen = (note?: string): string[] =>
      screenOf(now, { columns: columns?.() ?? NO_TERMINAL_COLUMNS, colour, ...(note === undefined ? {} : { note }) })
    if (json || !terminal || env['TERM'] === 'dumb') {
      print(now, () => `${screen().join('\n')}\n`)
      return
    }
    const show = (note?: string): void => {
      const lines = screen(note).map((line) => `${line}${CLEAR_LINE}\n`)
      raw.out(`${HOME}${lines.join('')}${CLEAR_BELOW}`)
    }
    raw.out(ENTER)
    try {
      show()
      while (!stop.aborted) {
        await delay(everyMs, undefined, { signal: stop }).catch(() => undefined)
        if (stop.aborted) break
        try {
          now = await read()
          show()
        } catch (error) {
          if (!(error instanceof InstarError)) throw error
          show(`${error.message} These figures are of ${now.at.slice(11, 19)} UTC; it is tried again.`)
        }
      }
    } finally {
      raw.out(LEAVE)
    }
  },
})
