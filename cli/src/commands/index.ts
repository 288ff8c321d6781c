/** The commands in the order in which help lists them; each is loaded when it is called. */
import type { Command } from '../command.ts'

export type Entry = { summary: string; load(): Promise<{ default: Command }> }

export const COMMANDS: Readonly<Record<string, Entry>> = {
  up: {
    summary: 'start the pipeline: gateway, scorer, trainer, publisher, projections',
    load: () => import('./up.ts'),
  },
  setup: { summary: 'prepare Kafka, the schema registry and PostgreSQL', load: () => import('./setup.ts') },
  demo: {
    summary: 'see it learn: three simulated people talk to it in a folder of its own',
    load: () => import('./demo.ts'),
  },
  versions: { summary: 'list the versions of the policy', load: () => import('./versions.ts') },
  show: { summary: 'one version: its turns, figures and times', load: () => import('./show.ts') },
  sql: { summary: 'ask the read model', load: () => import('./sql.ts') },
  rollback: { summary: 'serve an earlier version again', load: () => import('./rollback.ts') },
  thaw: { summary: 'let learning go on after a rollback', load: () => import('./thaw.ts') },
  verify: { summary: 'is every version what the log says?', load: () => import('./verify.ts') },
  replay: { summary: 'train again from the log, onto a branch', load: () => import('./replay.ts') },
  promote: { summary: 'serve the result of a branch, through the gate', load: () => import('./promote.ts') },
  export: { summary: 'the turns of the log as lines that import reads', load: () => import('./export.ts') },
  import: {
    summary: 'recorded conversations onto the log: OpenAI logs, conversations, Claw-R1 steps',
    load: () => import('./import.ts'),
  },
  log: {
    summary: 'copy a log: embedded to Kafka, back, or with other partitions; set a record aside',
    load: () => import('./log.ts'),
  },
  keys: { summary: 'API keys: who may call the gateway, and for what', load: () => import('./keys.ts') },
  doctor: { summary: 'look at everything that could be wrong', load: () => import('./doctor.ts') },
}
