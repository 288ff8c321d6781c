import { InstarError, type Written } from '@instar/events'
import { command, versionNumber } from '../command.ts'
import { batchOf, iso, readLines, servedIntervals, statusOf, versionsOf } from '../lines.ts'
import { minute, table } from '../table.ts'

/** What a person wrote is readable here unless a key keeps it. */
const written = (value: Written | null): string | null =>
  value === null
    ? null
    : value.keyId === null
      ? Buffer.from(value.bytes).toString('utf8')
      : `(encrypted with ${value.keyId})`

export default command('show', {
  usage: 'N',
  help: `
One version: where it comes from, the turns it was trained on, the update's and the gate's figures, when it
served. From the log.

--json: {version, parent, sha256, status, why, published_at, served: [{from, to}], gate, update:
{figures, fingerprint, seed, loss, settings, started_at, finished_at}, turns: [{turn_id, session_id, version,
reward, baseline, advantage, hint}], dropped: [{turn_id, reason}], source}`,
  options: {},
  overrides: ['data'],
  positionals: [1, 1],
  async run({ config, positionals, answer }) {
    const number = versionNumber(positionals[0]!)
    const lines = await readLines(config)
    const version = versionsOf(lines.weights).find((one) => one.version === number)
    if (!version) throw new InstarError('unknown_version', `The policy has no version ${number}.`, { version: number })
    const batch = batchOf(lines, version)
    const computed = batch?.update?.event ?? null
    const served = servedIntervals(lines.weights, number)
    const shown = {
      version: number,
      parent: version.parent,
      sha256: version.adapter,
      status: statusOf(lines.weights, number),
      why: version.published?.why ?? 'base',
      published_at: iso(version.at),
      source: version.published?.source ?? null,
      served: served.map(({ from, to }) => ({ from: iso(from), to: iso(to) })),
      gate: version.published?.figures ?? null,
      update:
        batch && computed
          ? {
              figures: computed.figures,
              fingerprint: computed.fingerprint,
              batch: batch.sealed.number,
              seed: batch.sealed.seed,
              loss: batch.sealed.loss,
              settings: batch.sealed.settings,
              started_at: iso(computed.startedAt),
              finished_at: iso(computed.at),
            }
          : null,
      turns: (batch?.sealed.items ?? []).map((item) => ({
        turn_id: item.turn,
        session_id: item.session,
        version: item.version,
        reward: item.reward,
        baseline: item.baseline,
        advantage: item.advantage,
        hint: written(item.hint),
      })),
      dropped: (batch?.sealed.dropped ?? []).map((drop) => ({ turn_id: drop.turn, reason: drop.reason })),
    }
    answer(shown, () => {
      const figures = (title: string, of: Readonly<Record<string, number>> | null | undefined): string =>
        of
          ? `\n${title}\n${Object.entries(of)
              .map(
                ([name, value]) => `  ${name.padEnd(24)} ${Number.isInteger(value) ? value : value.toPrecision(5)}\n`,
              )
              .join('')}`
          : ''
      return [
        `version ${number}: ${shown.status}, ${shown.why}${version.parent === null ? '' : `, from version ${version.parent}`}${version.at === 0 ? '' : `, ${minute(version.at)} UTC`}\n`,
        `adapter ${version.adapter ?? 'none (the base model)'}\n`,
        shown.source ? `promoted from ${shown.source.policy}, version ${shown.source.version}\n` : '',
        served.map(({ from, to }) => `served ${minute(from)} – ${to === null ? 'now' : minute(to)}\n`).join(''),
        figures('gate', shown.gate),
        figures('update', shown.update?.figures),
        shown.turns.length > 0
          ? `\n${table(
              [
                { name: 'turn', of: (turn) => turn.turn_id.slice(-12) },
                { name: 'said by', of: (turn) => turn.version },
                { name: 'reward', of: (turn) => turn.reward },
                { name: 'baseline', of: (turn) => turn.baseline },
                { name: 'advantage', of: (turn) => turn.advantage },
                { name: 'hint', of: (turn) => turn.hint ?? '' },
              ],
              shown.turns,
            )}`
          : '',
        shown.dropped.length > 0
          ? `dropped: ${shown.dropped.map((drop) => `${drop.turn_id.slice(-12)} (${drop.reason})`).join(', ')}\n`
          : '',
      ].join('')
    })
  },
})
