import { command, UsageError } from '../command.ts'
import { gatewayUrl, type Config } from '../config.ts'
import { looksOf } from '../diagnosis.ts'
import { faultOf, type Finding } from '../doctor/finding.ts'
import { ask } from '../gateway.ts'
import { table } from '../table.ts'

const LABEL: Readonly<Record<Finding['level'], string>> = { ok: 'ok', note: 'note', unsure: 'unsure', wrong: 'WRONG' }
const INDENT = ' '.repeat(20)

const line = (name: string, { level, found, todo }: Finding): string =>
  `${LABEL[level].padEnd(6)} ${name.padEnd(12)} ${found}${todo === null ? '' : `\n${INDENT}→ ${todo}`}\n`

type Seen = {
  at: string
  dialect: string
  client: string | null
  carried: string[]
  session: string
  label_source: string
  user_turn: string | null
  kind: string
  turn: string
  messages: number
  tools: number
  off_prefix: boolean
  status: string | null
  trainable: boolean | null
  reason: string | null
  follows: string | null
  next: string | null
}

/** What each source of a session's name means for whoever connects an agent. */
const SOURCES: Readonly<Record<string, string>> = {
  header: 'a header or URL of ours',
  agent: 'what the agent sends by itself',
  minted: 'ids that we gave out',
  answer: 'our earlier answer',
  prompt: 'what the agent says in its prompt',
  fingerprint: 'the beginning of the conversation',
}

/** The last requests of the gateway: what they carried, how they were understood. */
const agent = async (config: Config): Promise<{ requests: Seen[]; text: string }> => {
  const requests = await ask<Seen[]>(config, '/admin/requests')
  if (requests.length === 0)
    return { requests, text: `Nobody has asked ${gatewayUrl(config)} for an answer since it started.\n` }
  const rows = table(
    [
      { name: 'time (UTC)', of: (one) => one.at.slice(11, 19) },
      { name: 'client', of: (one) => one.client },
      { name: 'dialect', of: (one) => one.dialect },
      { name: 'session', of: (one) => one.session.slice(0, 20) },
      { name: 'known by', of: (one) => SOURCES[one.label_source] ?? one.label_source },
      { name: 'user turn', of: (one) => one.user_turn?.slice(0, 13) ?? '' },
      { name: 'kind', of: (one) => one.kind },
      { name: 'messages', of: (one) => one.messages },
      { name: 'tools', of: (one) => one.tools },
      { name: 'joined', of: (one) => (one.follows === null ? 'begins' : one.off_prefix ? 'yes, rewritten' : 'yes') },
      {
        name: 'trained on',
        of: (one) =>
          one.trainable === null ? (one.status ?? 'running') : one.trainable ? 'yes' : `no: ${one.reason ?? ''}`,
      },
      { name: 'carried', of: (one) => one.carried.join(', ') || 'nothing that names a session' },
    ],
    requests,
  )
  const lonely = requests.filter((one) => one.label_source === 'fingerprint' && one.messages > 2).length
  return {
    requests,
    text: `${rows}${lonely === 0 ? '' : `\n${lonely} of these went on with a conversation whose answers are not ours, or were rewritten: a session id (header x-session-id, or the base URL /s/NAME/v1) would keep them together.\n`}`,
  }
}

export default command('doctor', {
  usage: '[agent]',
  help: `
Looks at everything that a start needs, and at what is there, and says what to do about what is not as it should be.
Changes nothing. Exit code 0 when nothing is wrong.

  agent   instead: the last requests that the running gateway got, what they carried, how they were understood: one
          session or several, part of the conversation or beside it, trained on or why not

On one machine: Node, data folder, every record of the log, model, engine, PostgreSQL, gateway, judge. With INSTAR_LOG
on Kafka also: brokers, topics, their settings, schemas and their compatibility, dead letters, migrations, how far the
projections are behind the log, what waits for the scorer, the trainer and the publisher, what groups committed, every
gateway behind INSTAR_HOST, clocks.

  ok      as it should be
  note    it works, and somebody should know
  unsure  it could not be looked at, which is no fault
  WRONG   it does not work, or will not for long

--json with agent: an array of {at, client, dialect, session, label_source, user_turn, kind, turn, carried, follows, next, trainable,
reason, off_prefix, …}, newest first; else: {ok, checks: [{name, level, ok, unsure, found, todo}]}, level: ok, note, unsure or wrong`,
  options: {},
  overrides: ['data', 'model', 'host', 'port'],
  positionals: [0, 1],
  async run({ config, json, answer, out, positionals: [what] }) {
    if (what !== undefined && what !== 'agent') throw new UsageError(`not understood: ${what}`)
    if (what === 'agent') {
      const { requests, text } = await agent(config)
      answer(requests, () => text)
      return true
    }
    const checks: (Finding & { name: string; ok: boolean; unsure: boolean })[] = []
    const { looks, close } = looksOf(config)
    try {
      for (const { name, of } of looks) {
        const findings = await of(config).catch((error: unknown) => [faultOf(error)])
        for (const finding of findings) {
          checks.push({ name, ok: finding.level !== 'wrong', unsure: finding.level === 'unsure', ...finding })
          if (!json) out(line(name, finding))
        }
      }
    } finally {
      await close()
    }
    const ok = checks.every((one) => one.ok)
    answer({ ok, checks }, () => '')
    return ok
  },
})
