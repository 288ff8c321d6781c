/** `npm run bench [-- log|policy|latency|projections|snapshots|kafka|services|gateway|candidates|poison|moves …] [--json] [--quick]`: every speed claim with its peer, in one run. */
import * as gateway from './gateway.ts'
import * as candidates from './candidates.ts'
import * as kafka from './kafka.ts'
import * as latency from './latency.ts'
import * as log from './log.ts'
import * as moves from './moves.ts'
import * as poison from './poison.ts'
import * as policy from './policy.ts'
import * as projections from './projections.ts'
import * as snapshots from './snapshots.ts'
import * as services from './services.ts'

type Cell = string | number | boolean | null
type Report = { name: string; machine: string; rows: object[] }

const USAGE = `npm run bench [-- NAMES] [--json] [--quick] [--no-peer]

  log          durable appends against raw SQLite and write + fdatasync; replay
  policy       decoding and a train step against PyTorch, tiny model and SmolLM2-135M
               (fetches a 93 MB model and, for the peer, a few GB of PyTorch into .cache, once)
  latency      from a batch to the version that it made, rollback, waits while learning
  candidates   what groups sampled in the background are worth: conversations of the demo's people until they are
               content, with one answer to each request and with four candidates of it (10 minutes)
  poison       what the gate lets pass of poisoned feedback, series by series, and what is left of the content (10 minutes)
  moves        what it costs 100 streams that weights move under them: 20 publishes and 5 rollbacks in a minute
  projections  100,000 turns into PostgreSQL
  snapshots    how soon a service is ready on a log of 1,000,000 turns (4 GB in the temporary folder)
  kafka        our adapter against Kafka's own tools and another client for Node (a broker is fetched once, as for
               test:int, and the other client, into .cache)
  services     on that broker: what each service bears, what capturing adds to an answer, bytes and CPU of a turn
  gateway      what the gateway adds to a call, and its CPU, against the engine itself, a bare pass-through, Portkey's gateway
               and LiteLLM (fetched into .cache, once)

  --quick      fewer and shorter rounds: shows that it runs, not how fast
  --no-peer    without what is fetched: PyTorch, Portkey's gateway and LiteLLM
  --json       one JSON array on the last line`

const words = process.argv.slice(2)
const flags = words.filter((word) => word.startsWith('-'))
const quick = flags.includes('--quick')
const say = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

const BENCHES: Record<string, () => Promise<Report>> = {
  log: () => log.bench({ quick }),
  policy: () => policy.bench({ quick, say, peer: !flags.includes('--no-peer') }),
  latency: () => latency.bench({ quick, say }),
  kafka: () => kafka.bench({ quick, say }),
  candidates: () => candidates.bench({ quick, say }),
  poison: () => poison.bench({ quick, say }),
  moves: () => moves.bench({ quick, say }),
  services: () => services.bench({ quick, say }),
  gateway: () => gateway.bench({ quick, say, peer: !flags.includes('--no-peer') }),
  projections: () => (quick ? projections.bench(5_000) : projections.bench()),
  snapshots: () => snapshots.bench({ say, ...(quick ? { turns: 20_000 } : {}) }),
}

const short = (value: Cell): Cell =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(3)) : (value ?? '')

const names = words.filter((word) => !word.startsWith('-'))
const unknown = [
  ...names.filter((name) => !(name in BENCHES)),
  ...flags.filter((flag) => !['--json', '--quick', '--no-peer', '--help'].includes(flag)),
]
if (unknown.length > 0 || flags.includes('--help')) {
  process.stdout.write(`${unknown.length > 0 ? `unknown: ${unknown.join(' ')}\n\n` : ''}${USAGE}\n`)
  process.exit(unknown.length > 0 ? 2 : 0)
}
const reports: Report[] = []
for (const [name, bench] of Object.entries(BENCHES)) {
  if (names.length > 0 && !names.includes(name)) continue
  say(`bench ${name}`)
  const report = await bench()
  reports.push(report)
  if (flags.includes('--json')) continue
  const { rows, ...rest } = report
  process.stdout.write(
    `\n${Object.entries(rest)
      .map(([key, value]) => `${key}: ${String(value)}`)
      .join('; ')}\n`,
  )
  console.table(
    rows.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, short(value as Cell)]))),
  )
}
if (flags.includes('--json')) process.stdout.write(`${JSON.stringify(reports)}\n`)
