import { command } from '../command.ts'
import { batchOf, hasLog, iso, readLines, statusOf, versionsOf } from '../lines.ts'
import { minute, table } from '../table.ts'

export default command('versions', {
  usage: '',
  help: `
Every accepted version of the policy, the base (0) included, from the log: works while the pipeline runs and
while it does not. Status: serving (the head), superseded (an ancestor of it), rolled_back.

--json: an array of {version, parent, sha256, status, why, published_at, trained_turns, mean_reward, figures}`,
  options: {},
  overrides: ['data'],
  async run({ config, answer, err }) {
    const lines = await readLines(config)
    if (!hasLog(config))
      err(`no log in ${config.data} yet (\`npx instar up\` makes one): the policy is its base model\n`)
    const rows = versionsOf(lines.weights).map((version) => {
      const sealed = batchOf(lines, version)?.sealed
      const rewards = sealed?.items.map(({ reward }) => reward) ?? []
      return {
        version: version.version,
        parent: version.parent,
        sha256: version.adapter,
        status: statusOf(lines.weights, version.version),
        why: version.published?.why ?? 'base',
        published_at: iso(version.at),
        at: version.at,
        trained_turns: sealed ? rewards.length : null,
        mean_reward: rewards.length > 0 ? rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length : null,
        figures: version.published?.figures ?? {},
      }
    })
    answer(
      rows.map(({ at: _, ...row }) => row),
      () =>
        table(
          [
            { name: 'version', of: (row) => row.version },
            { name: 'parent', of: (row) => row.parent },
            { name: 'status', of: (row) => row.status },
            { name: 'why', of: (row) => row.why },
            { name: 'published (UTC)', of: (row) => (row.at === 0 ? null : minute(row.at)) },
            { name: 'turns', of: (row) => row.trained_turns },
            { name: 'reward', of: (row) => row.mean_reward },
            { name: 'KL parent', of: (row) => row.figures.kl_parent },
            { name: 'sha256', of: (row) => row.sha256?.slice(0, 12) },
          ],
          rows,
        ) + (lines.weights.frozen ? 'learning is frozen: `instar thaw` lets it go on\n' : ''),
    )
  },
})
