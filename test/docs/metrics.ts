/** Generates docs/metrics.md from the table of metrics: `node bootstrap.cjs test/docs/metrics.ts`. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { processMetrics } from '@instar/process/metrics/metrics'
import { METRICS, type MetricEntry } from '@instar/process/metrics/table'
import { ROOT } from '../../tools/tree.ts'

export const METRICS_PAGE = join(ROOT, 'docs', 'metrics.md')

const HEAD = `# Metrics

| where | |
|---|---|
| \`GET /metrics\` of the gateway | Prometheus's text format. With API keys it needs the scope \`admin\`; without, it is served to this machine only. With \`npm start\` it has the metrics of all services |
| \`GET /metrics\` on \`INSTAR_HEALTH_PORT\` | of a service that runs as a process of its own, beside \`/health/ready\` |

- Counters start when the process is ready: records read before that are not counted.
- Every service but the scorer reads whole topics, and a scorer all scores, so each replica exports all of them; metrics of the process itself (waiting, running,
  lag) can be summed.
- No label contains a text, session, turn, user, key or model name. A label has the values listed here, or at most the given number of
  values; a metric has at most 500 combinations. Further values are \`other\`.

The table is \`packages/process/src/metrics/table.ts\` (that of the gateway: \`gateway-table.ts\`); a test holds this page equal to it.

`

const TITLES: Readonly<Record<MetricEntry['of'], string>> = {
  gateway: 'Gateway',
  scorer: 'Scorer',
  trainer: 'Trainer',
  publisher: 'Publisher',
  projections: 'Projections',
  process: 'Every service',
}

/** Pipes would end a table cell. */
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
      `## ${title}\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n${entries
        .filter(([, entry]) => entry.of === of)
        .map(([name, entry]) => `| \`${name}\` | ${entry.type} | ${labelsOf(entry)} | ${cell(entry.help)} |\n`)
        .join('')}`,
  )
  const rest = (await processMetrics())
    .toSorted((a, b) => a.name.localeCompare(b.name))
    .map(({ name, type, help }) => `| \`${name}\` | ${type} | ${cell(help)} |\n`)
    .join('')
  return `${HEAD}${tables.join('\n')}\n## The process\n\nOn Linux; on other systems those that need \`/proc\` are missing.\n\n| metric | type | meaning |\n|---|---|---|\n${rest}`
}

if (process.argv[1] === import.meta.filename) writeFileSync(METRICS_PAGE, await metricsPage())
