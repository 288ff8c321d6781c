import { command } from '../command.ts'
import { hasLog } from '../log-access.ts'
import { refusalAlarm, refusalReason } from '../refusals.ts'
import { minuteText, table } from '../table.ts'
import { batchOf, isoTime, readVersionHistory, statusOf, versionsOf } from '../versions.ts'

export default command('versions', {
  usage: '[--refused]',
  help: `
Lists every published version of the policy and the base (0), from the log. The pipeline may be running. Status: serving
(the head), superseded (an ancestor of the head), rolled_back. Below the table: how many updates the gate refused, and
a warning after three in a row.

  --refused  lists the refused updates instead, with the reason of each

--json: an array of {version, parent, sha256, status, why, published_at, trained_turns, mean_reward, figures}; with
--refused of {update, parent, reason, refused_at, figures}`,
  options: { refused: { type: 'boolean' } },
  overrides: ['data'],
  async run({ config, values, print, err }) {
    const history = await readVersionHistory(config)
    const { rejected, refusals, frozen } = history.weights
    if (values.refused === true) {
      const refused = rejected.map(({ event: { update, parent, reason, figures, at } }) => ({
        row: { update, parent, reason, refused_at: isoTime(at), figures },
        at,
      }))
      print(
        refused.map(({ row }) => row),
        () =>
          table(
            [
              { name: 'refused (UTC)', of: ({ at }) => minuteText(at) },
              { name: 'parent', of: ({ row }) => row.parent },
              { name: 'reason', of: ({ row }) => refusalReason(row.reason, row.figures) },
              { name: 'update', of: ({ row }) => row.update },
            ],
            refused,
          ),
      )
      return
    }
    if (!hasLog(config))
      err(`no log in ${config.data} yet (\`npx instar up\` creates it): the policy is its base model\n`)
    const rows = versionsOf(history.weights).map((version) => {
      const sealed = batchOf(history, version)?.sealed
      const rewards = sealed?.items.map(({ reward }) => reward) ?? []
      return {
        version: version.version,
        parent: version.parent,
        sha256: version.adapter,
        status: statusOf(history.weights, version.version),
        why: version.published?.why ?? 'base',
        published_at: isoTime(version.at),
        at: version.at,
        trained_turns: sealed ? rewards.length : null,
        mean_reward: rewards.length > 0 ? rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length : null,
        figures: version.published?.figures ?? {},
      }
    })
    print(
      rows.map(({ at: _, ...row }) => row),
      () =>
        table(
          [
            { name: 'version', of: (row) => row.version },
            { name: 'parent', of: (row) => row.parent },
            { name: 'status', of: (row) => row.status },
            { name: 'why', of: (row) => row.why },
            { name: 'published (UTC)', of: (row) => (row.at === 0 ? null : minuteText(row.at)) },
            { name: 'turns', of: (row) => row.trained_turns },
            { name: 'reward', of: (row) => row.mean_reward },
            { name: 'KL parent', of: (row) => row.figures.kl_parent },
            { name: 'sha256', of: (row) => row.sha256?.slice(0, 12) },
          ],
          rows,
        ) +
        (frozen ? 'learning is frozen: `instar thaw` resumes it\n' : '') +
        (rejected.length > 0 ? `refused updates: ${rejected.length} (\`instar versions --refused\`)\n` : '') +
        refusalAlarm(refusals, rejected.at(-1)?.event),
    )
  },
})
