import { escapeControls } from '@instar/process/printable'
import { command, UsageError } from '../command.ts'
import { readAgentRequests } from '../doctor/agent-requests.ts'
import { createChecks } from '../doctor/checks.ts'
import { errorFinding, errorsOnce, type Finding } from '../doctor/finding.ts'
import { checkTrainer } from '../doctor/trainer.ts'
import { throwIfStopped } from '../log-access.ts'

const LABELS: Readonly<Record<Finding['level'], string>> = { ok: 'ok', note: 'note', unsure: 'unsure', wrong: 'WRONG' }
const INDENT = ' '.repeat(20)

const findingText = (name: string, { level, found, todo }: Finding): string =>
  `${LABELS[level].padEnd(6)} ${name.padEnd(12)} ${escapeControls(found)}${todo === null ? '' : `\n${INDENT}→ ${todo}`}\n`

const withFlags = (check: Finding & { name: string }): Finding & { name: string; ok: boolean; unsure: boolean } => ({
  ...check,
  ok: check.level !== 'wrong',
  unsure: check.level === 'unsure',
})

const DEFAULT_RANK = '8'

export default command('doctor', {
  usage: '[agent | trainer [URL] [--base MODEL] [--rank N]]',
  help: `
Checks what the services need and what they have written, and prints what to do for each finding. Changes nothing.
Exit code 0 if no finding is WRONG.

  agent   print the last requests of the running gateway instead: their session and what identified it, whether each
          joined an earlier turn, and whether it is trained on or why not
  trainer [URL]
          hold a server of the Tinker API (https://…, http://…, or INSTAR_TRAINER's, the default) to what the trainer needs.
          It trains small models of its own on the server for seconds to minutes, and deletes what it saved. The key is
          INSTAR_TRAINER_KEY.
  --base  base model to probe with; default: the only one that the server lists
  --rank  rank of the LoRA; default: 8

On one machine: Node, the data folder, every record of the log, model, gate, engine, training
server, PostgreSQL, gateway, judge. With
INSTAR_LOG on Kafka also: brokers, topics, their settings, schemas and their compatibility, dead letters, migrations,
the lag of the projections, unfinished work of the scorer, the trainer and the publisher, offsets of consumer groups,
every gateway behind INSTAR_HOST, clocks.

  ok      no problem found
  note    it works, but needs attention
  unsure  the check could not be made
  WRONG   it does not work, or will soon stop working

--json: {ok, checks: [{name, level, ok, unsure, found, todo}]}, level: ok, note, unsure or wrong.
--json with trainer: the same, and capabilities: an object of texts, null where the server could not be probed.
--json with agent: an array of {at, client, dialect, session, label_source, user_turn, kind, turn, carried, follows,
next, trainable, reason, off_prefix, …}, newest first`,
  options: { base: { type: 'string' }, rank: { type: 'string' } },
  overrides: ['data', 'archive', 'model', 'host', 'port'],
  positionals: [0, 2],
  async run({ config, json, print, out, env, stop, values, positionals: [subcommand, url] }) {
    if (subcommand === 'trainer') {
      const address = url ?? env['INSTAR_TRAINER'] ?? ''
      if (address === '' || address === 'embedded') throw new UsageError('the URL of the server is missing')
      const rank = Number(values.rank ?? DEFAULT_RANK)
      if (!Number.isInteger(rank) || rank < 1) throw new UsageError(`--rank ${values.rank} is not a number from 1 on`)
      const options = { key: env['INSTAR_TRAINER_KEY'] ?? null, base: values.base ?? null, rank, signal: stop }
      const { checks, capabilities } = await checkTrainer(address, options, ({ name, ...finding }) => {
        if (!json) out(findingText(name, finding))
      })
      const ok = checks.every(({ level }) => level !== 'wrong')
      print({ ok, checks: checks.map(withFlags), capabilities }, () => '')
      return ok
    }
    const extra = subcommand === 'agent' ? url : subcommand
    if (extra !== undefined) throw new UsageError(`unexpected argument: ${extra}`)
    if (values.base !== undefined || values.rank !== undefined)
      throw new UsageError('--base and --rank are for doctor trainer')
    if (subcommand === 'agent') {
      const { requests, text } = await readAgentRequests(config)
      print(requests, () => text)
      return true
    }
    const results: ReturnType<typeof withFlags>[] = []
    const { checks, close } = createChecks(config)
    const once = errorsOnce()
    try {
      for (const { name, run } of checks) {
        throwIfStopped(stop)
        const findings = await run(config, stop).catch((error: unknown) => [errorFinding(error)])
        throwIfStopped(stop)
        for (const finding of once(name, findings)) {
          results.push(withFlags({ name, ...finding }))
          if (!json) out(findingText(name, finding))
        }
      }
    } finally {
      await close()
    }
    const ok = results.every((result) => result.ok)
    print({ ok, checks: results }, () => '')
    return ok
  },
})
