/** `npm run bench [-- NAME …] [--json] [--quick] [--no-peer]`: runs the benches and prints a table of each. */
import * as candidates from './candidates.ts'
import * as changedMind from './changed-mind.ts'
import * as dashboard from './dashboard.ts'
import * as fleet from './fleet.ts'
import * as gateEstimates from './gate-estimates.ts'
import * as gateway from './gateway.ts'
import * as judge from './judge.ts'
import * as judged from './judged.ts'
import * as kafka from './kafka.ts'
import * as latency from './latency.ts'
import * as learner from './learner.ts'
import * as learnerMemory from './learner-memory.ts'
import * as learnerRate from './learner-rate.ts'
import * as liar from './liar.ts'
import * as liarSmolLM2 from './liar-smollm2.ts'
import * as log from './log.ts'
import * as longSessions from './long-sessions.ts'
import * as moves from './moves.ts'
import * as partitions from './partitions.ts'
import * as poison from './poison.ts'
import * as policy from './policy.ts'
import * as projections from './projections.ts'
import * as recall from './recall.ts'
import * as scorers from './scorers.ts'
import * as services from './services.ts'
import * as snapshots from './snapshots.ts'
import * as teacher from './teacher.ts'

type Cell = string | number | boolean | null
type Report = { name: string; machine: string; rows: object[] }
type Bench = { summary: string; run(): Promise<Report> }

const FLAGS = ['--all', '--json', '--quick', '--short', '--no-peer', '--help']
const args = process.argv.slice(2)
/** Takes `--name value` or `--name=value` out of the arguments. */
const takeValue = (flag: string): string | undefined => {
  const at = args.findIndex((arg) => arg === flag || arg.startsWith(`${flag}=`))
  if (at < 0) return undefined
  return args[at] === flag ? args.splice(at, 2)[1] : args.splice(at, 1)[0]!.slice(flag.length + 1)
}
/** `--step opdContrast=3,opdForward=1` */
const step = Object.fromEntries(
  (takeValue('--step')?.split(',') ?? []).map((one) => {
    const [name = '', value] = one.split('=')
    return [name, Number(value)]
  }),
)
const [url, model, who, split] = ['--url', '--model', '--who', '--split'].map(takeValue)
const [only, profile, before] = ['--only', '--profile', '--before'].map(takeValue)
const counts = Object.fromEntries(
  ['facts', 'from', 'seeds', 'seed', 'updates', 'conversations', 'daySeconds', 'rounds', 'leastGapMs'].flatMap(
    (name) => {
      const value = takeValue(`--${name}`)
      return value === undefined ? [] : [[name, Number(value)]]
    },
  ),
)
const flags = args.filter((arg) => arg.startsWith('-'))
const names = args.filter((arg) => !arg.startsWith('-'))
const quick = flags.includes('--quick') || flags.includes('--short')
const peer = !flags.includes('--no-peer')
const logLine = (line: string): void => {
  process.stderr.write(`${line}\n`)
}

/** In the order in which they run. */
const BENCHES: Readonly<Record<string, Bench>> = {
  log: {
    summary: 'durable appends, compared with raw SQLite and write + fdatasync; replay',
    run: () => log.bench({ quick }),
  },
  policy: {
    summary: `decoding and a train step, compared with PyTorch; tiny model and SmolLM2-135M (downloads the model,
               93 MB, and for the peer PyTorch, a few GB, into .cache once)`,
    run: () => policy.bench({ quick, logLine, peer }),
  },
  latency: {
    summary: 'time from a batch to its served version, of a rollback, and to the first token during learning',
    run: () => latency.bench({ quick, logLine }),
  },
  learner: {
    summary: `turns per second that trainer and publisher learn from, by size of batch, on models/tiny, with and without the next
               batch computed ahead; --model smollm2: an update of SmolLM2-135M beside four callers without a pause, with and
               without its share of the cores`,
    run: () =>
      model === 'smollm2'
        ? learner.bench({ quick, logLine })
        : learnerRate.bench({ quick, rounds: counts.rounds, logLine }),
  },
  'gate-estimates': {
    summary: 'estimates of KL from the log-probs that a server reports, against the sum over the vocabulary',
    run: () => gateEstimates.bench({ quick }),
  },
  'learner-memory': {
    summary: 'memory and speed of a pass of an update by the length of its turn, tiny model and SmolLM2-135M (Linux)',
    run: () => learnerMemory.bench({ quick, logLine }),
  },
  kafka: {
    summary: `the log on Kafka, compared with Kafka's own tools and another client for Node (downloads a broker, as
               test:int, and the client into .cache once)`,
    run: () => kafka.bench({ quick, logLine }),
  },
  scorers: {
    summary: 'CPU a turn of one, two and four scorers on one broker, at 50 turns/s and in full batches',
    run: () => scorers.bench({ quick, logLine, ...counts }),
  },
  partitions: {
    summary: '64 partitions of `turns` instead of 8 on three brokers: appends, reading, following at 50 records/s',
    run: () => partitions.bench({ quick, logLine, ...counts }),
  },
  candidates: {
    summary: `effect of background candidates: sessions until the demo's users are satisfied, with one answer to each
               request and with four candidates (10 minutes)`,
    run: () => candidates.bench({ quick, logLine }),
  },
  liar: {
    summary: `a fact that one liar, or three people, correct in every batch: 80 series, half an hour of CPU
               (--quick: one fact, one seed); --model smollm2: scores of a liar that count on its answers, without updates,
               or with --updates N so many of them (a minute of CPU each)`,
    run: () =>
      model === 'smollm2' && !('updates' in counts)
        ? liarSmolLM2.bench({ quick, ...counts, logLine })
        : liar.bench({ quick, ...counts, who, step, smollm2: model === 'smollm2', logLine }),
  },
  teacher: {
    summary: `updates of SmolLM2-135M with and without a setting of distillation (--step), from the base, as many of each
               (10 minutes of CPU)`,
    run: () => teacher.bench({ logLine, ...counts, ...(Object.keys(step).length > 0 ? { steps: [{}, step] } : {}) }),
  },
  'changed-mind': {
    summary: 'learning at the limit of the KL to the base, with a wish that changes half-way; 2,000 sessions (an hour)',
    run: () => changedMind.bench({ quick, logLine }),
  },
  poison: {
    summary: 'updates from poisoned feedback: verdicts of the gate, and the content afterwards (10 minutes)',
    run: () => poison.bench({ quick, logLine }),
  },
  moves: {
    summary: 'latency of 100 streams during 20 publishes and 5 rollbacks in a minute',
    run: () => moves.bench({ quick, logLine }),
  },
  judge: {
    summary: `precision and recall of the reactions judge on labelled cases (bench/judge), and of an OpenAI-compatible
               judge (--url and --model, or INSTAR_JUDGE_URL)`,
    run: () => judge.bench({ quick, logLine, url, model, split }),
  },
  judged: {
    summary: `turns that a slow judge is asked about where twice as many arrive as updates take: judged, trained, versions, reward,
               with and without \`judge.waitingBatches\` (4 minutes)`,
    run: () => judged.bench({ quick, logLine }),
  },
  services: {
    summary: 'throughput of each service on Kafka, latency of capturing, bytes and CPU of a turn',
    run: () => services.bench({ quick, logLine }),
  },
  fleet: {
    summary: `CPU of each service per turn with 1, 2 and 4 gateways and scorers on Kafka over a simulated day, recall of
               continuations, lost and doubled turns; a model of it for 20 and 200 gateways (15 minutes; --short: 3)`,
    run: () => fleet.bench({ short: quick, ...counts, logLine }),
  },
  gateway: {
    summary: `latency and CPU of the gateway, compared with the engine alone, a pass-through, Portkey's gateway and
               LiteLLM (downloaded into .cache once)`,
    run: () => gateway.bench({ quick, logLine, peer, only, profile, before, ...counts }),
  },
  projections: {
    summary: '100,000 turns into PostgreSQL',
    run: () => (quick ? projections.bench(5_000) : projections.bench()),
  },
  dashboard: {
    summary: `statements, addresses and pages of the dashboard on 100,000 turns and 500 versions, and the gateway's latency
               with ten open pages (needs a Chromium, as test:web)`,
    run: () => dashboard.bench({ quick, logLine }),
  },
  'long-sessions': {
    summary: 'a session of 1,000, 20,000 or 100,000 turns: holds of the event loop, CPU and memory of the gateway',
    run: () => longSessions.bench({ quick, logLine }),
  },
  recall: {
    summary: `continuations that a gateway recognises after a minute, an hour and a day of other traffic at 1,000 turns/s, on
               a simulated clock, with and without names on the disk (--all: the names of every turn of the day, 8 GB)`,
    run: () => recall.bench({ quick, all: flags.includes('--all'), logLine }),
  },
  snapshots: {
    summary: 'start of each service on a log of 1,000,000 turns (4 GB in the temporary folder)',
    run: () => snapshots.bench({ logLine, ...(quick ? { turns: 20_000 } : {}) }),
  },
}

const USAGE = `npm run bench [-- NAME …] [--json] [--quick] [--no-peer]

${Object.entries(BENCHES)
  .map(([name, { summary }]) => `  ${name.padEnd(12)} ${summary}`)
  .join('\n')}

  --quick, --short  fewer and shorter rounds: a smoke test, not a measurement
  --url, --model  the endpoint of another judge, for judge
  --split dev  for judge: of the labelled cases those alone; the sealed ones are measured once for each release of a judge
  --facts, --seeds  how many of them, for liar; --from N skips facts, --seed N is the first seed, --who TEXT takes the correctors whose name has it,
               --step opdContrast=3,opdForward=1 settings of the updates, also for teacher, as --seed
               and --updates
  --conversations, --daySeconds, --rounds  for fleet: of a day, its real seconds, and how many are measured
  --only, --rounds, --profile, --before  for gateway: cases whose name contains the text, how many rounds, a folder for a CPU
               profile of the gateway, another checkout whose gateway is measured beside this one's
  --leastGapMs      for fleet: real ms before a continuation, at least
  --no-peer    without PyTorch, Portkey's gateway and LiteLLM, which are downloaded
  --json       print one JSON array as the last line`

const cellText = (value: Cell): Cell =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(3)) : (value ?? '')

const unknown = [
  ...names.filter((name) => !Object.hasOwn(BENCHES, name)),
  ...flags.filter((flag) => !FLAGS.includes(flag)),
]
if (unknown.length > 0 || flags.includes('--help')) {
  process.stdout.write(`${unknown.length > 0 ? `unknown: ${unknown.join(' ')}\n\n` : ''}${USAGE}\n`)
  process.exit(unknown.length > 0 ? 2 : 0)
}
const reports: Report[] = []
for (const [name, { run }] of Object.entries(BENCHES)) {
  if (names.length > 0 && !names.includes(name)) continue
  logLine(`bench ${name}`)
  const report = await run()
  reports.push(report)
  if (flags.includes('--json')) continue
  const { rows, ...fields } = report
  process.stdout.write(
    `\n${Object.entries(fields)
      .map(([key, value]) => `${key}: ${String(value)}`)
      .join('; ')}\n`,
  )
  // A bench that measures several things has a table of each.
  for (const alike of Map.groupBy(rows, (row) => Object.keys(row).join()).values())
    console.table(
      alike.map((row) => Object.fromEntries(Object.entries(row).map(([key, value]) => [key, cellText(value as Cell)]))),
    )
}
if (flags.includes('--json')) process.stdout.write(`${JSON.stringify(reports)}\n`)
