import { command, UsageError } from '../command.ts'
import { readAgentRequests } from '../doctor/agent-requests.ts'
import { createChecks } from '../doctor/checks.ts'
import { errorFinding, type Finding } from '../doctor/finding.ts'

const LABELS: Readonly<Record<Finding['level'], string>> = { ok: 'ok', note: 'note', unsure: 'unsure', wrong: 'WRONG' }
const INDENT = ' '.repeat(20)

const findingText = (name: string, { level, found, todo }: Finding): string =>
  `${LABELS[level].padEnd(6)} ${name.padEnd(12)} ${found}${todo === null ? '' : `\n${INDENT}→ ${todo}`}\n`

export default command('doctor', {
  usage: '[agent]',
  help: `
Checks what the services need and what they have written, and prints what to do for each finding. Changes nothing.
Exit code 0 if no finding is WRONG.

  agent   print the last requests of the running gateway instead: their session and what identified it, whether each
          joined an earlier turn, and whether it is trained on or why not

On one machine: Node, the data folder, every record of the log, model, gate, engine, PostgreSQL, gateway, judge. With
INSTAR_LOG on Kafka also: brokers, topics, their settings, schemas and their compatibility, dead letters, migrations,
the lag of the projections, unfinished work of the scorer, the trainer and the publisher, offsets of consumer groups,
every gateway behind INSTAR_HOST, clocks.

  ok      no problem found
  note    it works, but needs attention
  unsure  the check could not be made
  WRONG   it does not work, or will soon stop working

--json: {ok, checks: [{name, level, ok, unsure, found, todo}]}, level: ok, note, unsure or wrong.
--json with agent: an array of {at, client, dialect, session, label_source, user_turn, kind, turn, carried, follows,
next, trainable, reason, off_prefix, …}, newest first`,
  options: {},
  overrides: ['data', 'model', 'host', 'port'],
  positionals: [0, 1],
  async run({ config, json, print, out, positionals: [subcommand] }) {
    if (subcommand !== undefined && subcommand !== 'agent') throw new UsageError(`unexpected argument: ${subcommand}`)
    if (subcommand === 'agent') {
      const { requests, text } = await readAgentRequests(config)
      print(requests, () => text)
      return true
    }
    const results: (Finding & { name: string; ok: boolean; unsure: boolean })[] = []
    const { checks, close } = createChecks(config)
    try {
      for (const { name, run } of checks) {
        const findings = await run(config).catch((error: unknown) => [errorFinding(error)])
        for (const finding of findings) {
          results.push({ name, ok: finding.level !== 'wrong', unsure: finding.level === 'unsure', ...finding })
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
