import { command } from '../command.ts'
import { probeShortage } from '@instar/publisher/battery'
import { hasLog } from '../log-access.ts'
import { rejectionAlarm, rejectionReason } from '../rejections.ts'
import { readLearning } from '../learning-now.ts'
import { readPrices } from '../learning-settings.ts'
import { minuteText, table } from '../table.ts'
import type { WeightLine } from '@instar/events'
import { updateCost, type Cost } from '@instar/process'
import { batchFinder, isoTime, readVersionHistory, statusesOf, versionsOf, whyOf } from '../versions.ts'

/** Empty where the line has enough probes, and before its first record. */
const probeLine = (started: WeightLine['started']): string => {
  const shortage = probeShortage(started)
  return shortage === '' ? '' : `WARNING: ${shortage}\n`
}

/** By the names of the columns of `version_metrics`; null for the base, and where they were not recorded. */
const tokensOf = (figures: Readonly<Record<string, number>>): Record<string, number> | null =>
  figures.forwardPromptTokens === undefined
    ? null
    : {
        forward_prompt: figures.forwardPromptTokens,
        forward_response: figures.forwardResponseTokens ?? 0,
        teacher: figures.teacherTokens ?? 0,
        backward_prompt: figures.backwardPromptTokens ?? 0,
        backward_response: figures.backwardResponseTokens ?? 0,
      }

const costText = ({ currency, amount }: Cost): string => `${Number(amount.toPrecision(3))} ${currency}`

export default command('versions', {
  usage: '[--rejected]',
  help: `
Lists every published version of the policy and the base (0), from the log. The pipeline may be running. Status: serving
(the head), superseded (an ancestor of the head), rolled_back. Below the table: what learning does now or why it does
nothing, how many updates the gate rejected, a warning after three in a row, and one where the gate has too few probes.

  --rejected  lists the rejected updates instead, with the reason of each

--json: an array of {version, parent, sha256, status, why, published_at, trained_turns, mean_reward, figures, limits,
tokens: those of the passes of its update {forward_prompt, forward_response, teacher, backward_prompt, backward_response}
or null, cost: {currency, amount}, an estimate from the setting prices with the tokens that the gate sampled, or null without prices}; with
--rejected of {update, parent, reason, rejected_at, figures, limits}. limits: the gate's settings for that verdict`,
  options: { rejected: { type: 'boolean' } },
  overrides: ['data'],
  async run({ config, values, print, err, stop }) {
    const history = await readVersionHistory(config, stop)
    const { rejected, rejectionsInARow } = history.weights
    if (values.rejected === true) {
      const entries = rejected.map(({ event: { update, parent, reason, figures, limits = {}, at } }) => ({
        row: { update, parent, reason, rejected_at: isoTime(at), figures, limits },
        at,
      }))
      print(
        entries.map(({ row }) => row),
        () =>
          table(
            [
              { name: 'rejected (UTC)', of: ({ at }) => minuteText(at) },
              { name: 'parent', of: ({ row }) => row.parent },
              { name: 'reason', of: ({ row }) => rejectionReason(row.reason, row.figures) },
              { name: 'update', of: ({ row }) => row.update },
            ],
            entries,
          ),
      )
      return
    }
    if (!hasLog(config))
      err(`no log in ${config.data} yet (\`npx instar up\` creates it): the policy is its base model\n`)
    const learning = await readLearning(config, history, Date.now(), stop)
    const prices = readPrices(config)
    const [statusOf, batchOf] = [statusesOf(history.weights), batchFinder(history)]
    const rows = versionsOf(history.weights).map((version) => {
      const batch = batchOf(version)
      const figures = batch?.update?.figures ?? {}
      return {
        version: version.version,
        parent: version.parent,
        sha256: version.adapter,
        status: statusOf(version.version),
        why: whyOf(history.weights, version),
        published_at: isoTime(version.at),
        at: version.at,
        trained_turns: batch?.turns ?? null,
        mean_reward: batch?.meanReward ?? null,
        figures: version.published?.figures ?? {},
        limits: version.published?.limits ?? {},
        tokens: tokensOf(figures),
        cost: updateCost(figures, prices, version.published?.figures.tokens),
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
            ...(rows.some(({ cost }) => cost !== null)
              ? [{ name: 'cost', of: ({ cost }: (typeof rows)[number]) => cost && costText(cost) }]
              : []),
            { name: 'sha256', of: (row) => row.sha256?.slice(0, 12) },
          ],
          rows,
        ) +
        `${learning}\n` +
        (rejected.length > 0 ? `rejected updates: ${rejected.length} (\`instar versions --rejected\`)\n` : '') +
        rejectionAlarm(rejectionsInARow, rejected.at(-1)?.event) +
        probeLine(history.weights.started),
    )
  },
})
