/** The commands, in the order of `instar help`. Each is one file, which is loaded when the command is called. */
import type { Command } from '../command.ts'

type Entry = { summary: string; load(): Promise<{ default: Command }> }

export const COMMANDS: Readonly<Record<string, Entry>> = {
  up: { summary: 'start the pipeline: all services in one process', load: () => import('./up.ts') },
  setup: { summary: 'prepare Kafka, the schema registry and PostgreSQL', load: () => import('./setup.ts') },
  demo: { summary: 'train on three simulated users, in a temporary folder', load: () => import('./demo.ts') },
  open: { summary: 'print a link that opens the dashboard', load: () => import('./open.ts') },
  top: { summary: 'show what the pipeline does now, in the terminal', load: () => import('./top.ts') },
  versions: { summary: 'list the versions of the policy', load: () => import('./versions.ts') },
  show: { summary: 'show one version: its turns, figures and times', load: () => import('./show.ts') },
  sql: { summary: 'query the read model', load: () => import('./sql.ts') },
  rollback: { summary: 'serve an earlier version, and freeze learning', load: () => import('./rollback.ts') },
  thaw: { summary: 'resume learning after a rollback', load: () => import('./thaw.ts') },
  verify: { summary: 'recompute the versions and compare them with the log', load: () => import('./verify.ts') },
  replay: { summary: 'train again from the log, onto a branch', load: () => import('./replay.ts') },
  promote: { summary: 'serve the result of a branch, if it passes the gate', load: () => import('./promote.ts') },
  export: { summary: 'write the turns of the log as JSON lines', load: () => import('./export.ts') },
  import: { summary: 'add recorded conversations to the log', load: () => import('./import.ts') },
  log: {
    summary: 'copy a log to another backend; set a record aside',
    load: () => import('./log.ts'),
  },
  archive: {
    summary: 'archive the log in a folder or an object store, check and restore it',
    load: () => import('./archive.ts'),
  },
  checkpoint: {
    summary: 'record the state of services, so that new processes start from it',
    load: () => import('./checkpoint.ts'),
  },
  keys: { summary: 'manage the API keys of the gateway', load: () => import('./keys.ts') },
  judge: { summary: 'judge answers by the reactions to them, read as JSON lines', load: () => import('./judge.ts') },
  settings: {
    summary: 'print the settings of learning and where each comes from',
    load: () => import('./settings.ts'),
  },
  doctor: { summary: 'check the installation, the log and the services', load: () => import('./doctor.ts') },
}
