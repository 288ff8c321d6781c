/** docs/metrics.md as it follows from the table of metrics. `node bootstrap.cjs test/docs/metrics.ts` writes it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { processMetrics } from '@instar/process/metrics/metrics'
import { METRICS, type MetricEntry } from '@instar/process/metrics/table'
import { ROOT } from '../tree.ts'

export const METRICS_PAGE = join(ROOT, 'docs', 'metrics.md')

const HEAD = `# Metrics

\`GET /metrics\` in Prometheus's text format: on the gateway's port (with API keys it needs one with the scope
\`admin\`, without keys the machine's own address, as everything else), and of a service that runs as a process of its
own on its health port (\`INSTAR_HEALTH_PORT\`, beside \`/health/ready\`). \`npm start\` runs all services in one process:
its gateway tells the metrics of all of them.

Counters count since the process was ready: what it read again of the log before that is not in them. Every
service reads whole topics, so of several replicas of a scorer each tells all scores; what a metric says of its own
process (waiting, running, lag) adds up.

No metric has a label that a person fills: no text, session, turn, user, key or model name. A label has the values
listed here, or at most so many different ones; a metric tells at most 500 combinations apart. What comes beyond is
told as \`other\`.

The table is \`packages/process/src/metrics/table.ts\`; a test holds this page equal to it.

`

const TITLES: Readonly<Record<MetricEntry['of'], string>> = {
  gateway: 'Gateway',
  scorer: 'Scorer',
  trainer: 'Trainer',
  publisher: 'Publisher',
  projections: 'Projections',
  process: 'Every service: the log, and what did not count',
}

/** Pipes would end a cell. */
const cell = (text: string): string => text.replaceAll('|', '\\|')

const labelsOf = ({ labels = {} }: MetricEntry): string =>
  Object.entries(labels)
    .map(([label, values]) => {
      if ('most' in values) return `\`${label}\` (at most ${values.most})`
      if (label === 'code') return '`code` ([errors.md](errors.md))'
      return values.length > 12 ? `\`${label}\` (${values.length} values)` : `\`${label}\` (${values.join(', ')})`
    })
    .join('; ')

export const metricsPage = async (): Promise<string> => {
  const entries: [string, MetricEntry][] = Object.entries(METRICS)
  const tables = Object.entries(TITLES).map(
    ([of, title]) =>
      `## ${title}\n\n| metric | type | labels | what it says |\n|---|---|---|---|\n${entries
        .filter(([, entry]) => entry.of === of)
        .map(([name, entry]) => `| \`${name}\` | ${entry.type} | ${labelsOf(entry)} | ${cell(entry.help)} |\n`)
        .join('')}`,
  )
  const rest = (await processMetrics())
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map(({ name, type, help }) => `| \`${name}\` | ${type} | ${cell(help)} |\n`)
    .join('')
  return `${HEAD}${tables.join('\n')}\n## The process\n\nOn Linux; elsewhere those that need \`/proc\` are missing.\n\n| metric | type | what it says |\n|---|---|---|\n${rest}`
}

if (process.argv[1] === import.meta.filename) writeFileSync(METRICS_PAGE, await metricsPage())
