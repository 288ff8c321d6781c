/**
 * The dashboard on a history of 100,000 turns and 500 versions: each statement under `explain analyze`, each address over
 * HTTP, each page in Chromium; and the latency of the gateway's answers in alternating rounds of one run: without pages, beside
 * ten open pages, while they are opened, and beside the same requests from a client without a browser. Engine, gateway,
 * client, PostgreSQL and Chromium share the machine.
 */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { temporaryFolder } from '../test/kit/stack.ts'
import { launch } from '../test/web/browser.ts'
import { FULL, type Size } from './dashboard/history.ts'
import { measurePages, openPages, visits, type PageRow, type Seen } from './dashboard/pages.ts'
import { statements, type Statement } from './dashboard/statements.ts'
import { filledStore } from './dashboard/store.ts'
import { readUsage, startClient, startProgram } from './gateway/process.ts'
import { startRequests, type Asked } from './dashboard/requests.ts'
import { machine, median, quantile, rounded } from './machine.ts'

/** `first`: right after the start of the gateway, when nothing is cached. In ms. */
type AddressRow = { address: string; first: number; again: number; kilobytes: number }
/**
 * p50 and p99 of answers in ms, of all rounds; `added`: median over the rounds of the differences of their p99 to that without
 * pages. `cpu`: of the gateway's process, in ms per second. `asked`: requests of the pages in a round, without their streams.
 */
type LatencyRow = {
  answers: string
  beside: string
  p50: number
  p99: number
  added: number
  cpu: number
  asked: number
}
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
const [PER_SECOND, ROUND_SECONDS, ROUNDS] = [30, 8, 5]
const NOTHING: Asked = { streams: 0, requests: [] }
type Round = { totals: number[]; cpu: number; asked: number }

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
    const load = { perSecond: PER_SECOND, seconds: quick ? 1 : ROUND_SECONDS }
    /** `during` begins with the first request. */
    const round = async (during: () => void = () => undefined): Promise<Round> => {
      let cpuMs = 0
      const { totals, failed } = await client.run(
        { port: gateway.port, headers: [], size: '1 KB', stream: true, load },
        async () => {
          cpuMs = (await readUsage(gateway.pid)).cpuMs
          during()
        },
      )
      if (failed > 0) throw new Error(`${failed} requests failed`)
      return { totals, cpu: ((await readUsage(gateway.pid)).cpuMs - cpuMs) / load.seconds, asked: 0 }
    }
    await round()
    /** What the pages of the last round asked for. */
    const last: Record<'open' | 'opening', Asked> = { open: NOTHING, opening: NOTHING }
    const since = (requests: readonly Seen[], from: number): Asked => ({
      streams: all.length,
      requests: requests.filter(({ at }) => at >= from).map(({ at, path }) => ({ at: at - from, path })),
    })
    const besidePages = async (opened: boolean): Promise<Round> => {
      let from = performance.now()
      let shown = opened ? openPages(browser, url, all) : null
      await shown?.settled()
      const found = await round(() => {
        from = performance.now()
        shown ??= openPages(browser, url, all)
      })
      await shown!.settled()
      const asked = since(shown!.requests, from)
      last[opened ? 'open' : 'opening'] = asked
      await shown!.close()
      return { ...found, asked: asked.requests.length }
    }
    const besideRequests = async (asked: Asked): Promise<Round> => {
      const requests = await startRequests(gateway.port, asked)
      const found = await round(() => requests.go())
      await requests.stop()
      return { ...found, asked: asked.requests.length }
    }
    const kinds: Record<string, () => Promise<Round>> = {
      nothing: () => round(),
      [`${all.length} open pages`]: () => besidePages(true),
      'their requests, no browser': () => besideRequests(last.open),
      [`${all.length} pages while they are opened`]: () => besidePages(false),
      'their requests while opened, no browser': () => besideRequests(last.opening),
    }
    const rounds = Object.keys(kinds).map((): Round[] => [])
    for (let i = 0; i < (quick ? 1 : ROUNDS); i++) {
      for (const [at, once] of Object.values(kinds).entries()) rounds[at]!.push(await once())
      logLine(`round ${i + 1}`)
    }
    const p99 = ({ totals }: Round): number => quantile(totals, 0.99)
    const latency = Object.keys(kinds).map((beside, kind): LatencyRow => {
      const own = rounds[kind]!
      const totals = own.flatMap((one) => one.totals)
      return {
        answers: `1 KB, stream, ${PER_SECOND}/s`,
        beside,
        p50: rounded(quantile(totals, 0.5)),
        p99: rounded(quantile(totals, 0.99)),
        added: rounded(median(own.map((one, at) => p99(one) - p99(rounds[0]![at]!)))),
        cpu: rounded(median(own.map(({ cpu }) => cpu))),
        asked: median(own.map(({ asked }) => asked)),
      }
    })
    const slowest = pages.reduce((worst, row) => (row.interaction > worst.interaction ? row : worst))
    const [alone, beside, requests] = latency
    return {
      name: 'dashboard',
      machine: machine(),
      history: `${size.turns} turns, ${size.versions} versions`,
      slowest_interaction: `${slowest.interaction} ms, page ${slowest.page} (aim: less than 100 ms)`,
      gateway_p99: `${alone!.p99} ms without pages, ${beside!.p99} ms beside ${beside!.beside}, ${requests!.p99} ms beside their requests without a browser; median differences of a round ${beside!.added} and ${requests!.added} ms (aim: at most 5 ms)`,
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
