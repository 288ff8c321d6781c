/**
 * The dashboard on a history of 100,000 turns and 500 versions: each statement under `explain analyze`, each address over
 * HTTP, each page in Chromium; and the latency of the gateway's answers with ten open pages and without, in alternating
 * rounds of one run. Engine, gateway, client, PostgreSQL and Chromium share the machine.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFolder } from '../test/kit/stack.ts'
import { launch } from '../test/web/browser.ts'
import { FULL, type Size } from './dashboard/history.ts'
import { measurePages, openPages, visits, type PageRow } from './dashboard/pages.ts'
import { statements, type Statement } from './dashboard/statements.ts'
import { filledStore } from './dashboard/store.ts'
import { startClient, startProgram } from './gateway/process.ts'
import { machine, median, quantile, rounded } from './machine.ts'

/** `first`: right after the start of the gateway, when nothing is cached. In ms. */
type AddressRow = { address: string; first: number; again: number; kilobytes: number }
/** p50 and p99 of answers in ms, of all rounds; `added`: median over the rounds of the differences of their p99. */
type LatencyRow = { answers: string; pages: number; p50: number; p99: number; added: number }
export type Report = {
  name: string
  machine: string
  history: string
  /** The figures that the aims are of. */
  slowest_interaction: string
  gateway_p99: string
  rows: (PageRow | AddressRow | Statement | LatencyRow)[]
}

type Options = {
  quick?: boolean
  logLine?: (line: string) => void
  /** Keeps the history there, and uses it again. */
  folder?: string
}

const AGAIN = 5
/** Requests per second of the open loop, and the length of a round. */
const [PER_SECOND, ROUND_SECONDS] = [30, 8]

const timed = async (url: string): Promise<{ ms: number; bytes: number }> => {
  const begun = performance.now()
  const response = await fetch(url)
  const { byteLength } = await response.arrayBuffer()
  if (!response.ok) throw new Error(`${url}: ${response.status}`)
  return { ms: performance.now() - begun, bytes: byteLength }
}

export const bench = async ({ quick = false, logLine = () => undefined, folder }: Options = {}): Promise<Report> => {
  const size: Size = quick ? { turns: 3_000, versions: 300 } : FULL
  const temporary = await temporaryFolder()
  const place = folder ?? temporary.path
  await mkdir(place, { recursive: true })
  const stops: (() => Promise<unknown>)[] = [() => temporary.remove()]
  try {
    const postgres = await filledStore(place, size)
    stops.unshift(() => postgres.stop())
    logLine('the history is projected')
    const found = await statements(postgres.reader)
    const engine = await startProgram(join(import.meta.dirname, 'gateway/mock.ts'))
    stops.unshift(() => engine.stop())
    const gateway = await startProgram(join(import.meta.dirname, 'dashboard/gateway.ts'), [
      `openai+http://127.0.0.1:${engine.port}/v1`,
      place,
      JSON.stringify(postgres.reader),
    ])
    stops.unshift(() => gateway.stop())
    const url = `http://127.0.0.1:${gateway.port}`
    const read = async <T>(path: string): Promise<T> =>
      (await fetch(`${url}/v1/dashboard/${path}`)).json() as Promise<T>
    const paths = ['now', 'lately', 'versions', 'versions/250', 'learning', 'sessions', 'sessions?reward=negative']
    const addresses: AddressRow[] = []
    const time = async (path: string): Promise<void> => {
      const address = `${url}/v1/dashboard/${path}`
      const { ms, bytes } = await timed(address)
      const again: number[] = []
      for (let one = 0; one < AGAIN; one++) again.push((await timed(address)).ms)
      const row = {
        address: path,
        first: rounded(ms),
        again: rounded(median(again)),
        kilobytes: Math.round(bytes / 1000),
      }
      addresses.push(row)
    }
    for (const path of paths) await time(path)
    const { rows: sessions } = await read<{ rows: { session_id: string }[] }>('sessions')
    const session = sessions.at(-1)!.session_id
    const { turns } = await read<{ turns: { rows: { turn_id: string }[] } }>(`sessions/${session}`)
    const turn = turns.rows[0]!.turn_id
    for (const path of [`sessions/${session}`, `turns/${turn}`]) await time(path)
    logLine('addresses and statements are measured')
    const browser = await launch()
    stops.unshift(() => browser.close())
    const all = visits(session, turn)
    const pages = await measurePages(browser, url, all, quick ? 1 : 3)
    logLine('pages are measured')
    const client = await startClient()
    stops.unshift(() => client.stop())
    const round = async (): Promise<number[]> => {
      const load = { perSecond: PER_SECOND, seconds: quick ? 1 : ROUND_SECONDS }
      const { totals, failed } = await client.run(
        { port: gateway.port, headers: [], size: '1 KB', stream: true, load },
        async () => undefined,
      )
      if (failed > 0) throw new Error(`${failed} requests failed`)
      return totals
    }
    await round()
    const without: number[][] = []
    const withPages: number[][] = []
    for (let i = 0; i < (quick ? 1 : 6); i++) {
      const once = async (open: boolean): Promise<void> => {
        const opened = open ? await openPages(browser, url, all) : null
        ;(open ? withPages : without).push(await round())
        await opened?.close()
      }
      await once(i % 2 === 0)
      await once(i % 2 === 1)
      logLine(`round ${i + 1}`)
    }
    const p99 = (totals: readonly number[]): number => quantile(totals, 0.99)
    const latency = [without, withPages].map((rounds, i): LatencyRow => ({
      answers: `1 KB, stream, ${PER_SECOND}/s`,
      pages: i === 0 ? 0 : all.length,
      p50: rounded(quantile(rounds.flat(), 0.5)),
      p99: rounded(p99(rounds.flat())),
      added: rounded(median(rounds.map((totals, at) => p99(totals) - p99(without[at]!)))),
    }))
    const slowest = pages.reduce((worst, row) => (row.interaction > worst.interaction ? row : worst))
    const [alone, beside] = latency
    return {
      name: 'dashboard',
      machine: machine(),
      history: `${size.turns} turns, ${size.versions} versions`,
      slowest_interaction: `${slowest.interaction} ms, page ${slowest.page} (aim: less than 100 ms)`,
      gateway_p99: `${alone!.p99} ms without pages, ${beside!.p99} ms with ${beside!.pages}, median difference of a round ${beside!.added} ms (aim: at most 5 ms)`,
      rows: [
        ...found.map((one) => ({ ...one, ms: rounded(one.ms) })),
        ...addresses.map((row) => ({ ...row, address: row.address.replace(session, 'ID').replace(turn, 'ID') })),
        ...pages,
        ...latency,
      ],
    }
  } finally {
    for (const stop of stops) await stop()
  }
}

if (import.meta.main) {
  const folder = process.argv.find((word) => word.startsWith('--folder='))?.slice('--folder='.length)
  const report = await bench({
    quick: process.argv.includes('--quick'),
    logLine: (line) => console.error(line),
    ...(folder === undefined ? {} : { folder }),
  })
  const kinds = [...Map.groupBy(report.rows, (row) => Object.keys(row).join()).values()]
  for (const rows of kinds) console.table(rows)
  console.log(`${report.machine}; ${report.history}`)
  console.log(`slowest interaction: ${report.slowest_interaction}`)
  console.log(`p99 of the gateway: ${report.gateway_p99}`)
}
