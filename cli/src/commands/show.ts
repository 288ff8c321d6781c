import { InstarError, type Written } from '@instar/events'
import { escapeControls } from '@instar/process/printable'
import { command, parseVersion } from '../command.ts'
import { minuteText, table } from '../table.ts'
import {
  batchFinder,
  isoTime,
  servedIntervals,
  statusesOf,
  versionsOf,
  whyOf,
  withVersionHistory,
  type ReadHistory,
} from '../versions.ts'

const writtenText = (value: Written | null): string | null =>
  value === null
    ? null
    : value.keyId === null
      ? Buffer.from(value.bytes).toString('utf8')
      : `(encrypted with ${value.keyId})`

/** The value that --json prints. Throws `unknown_version`. */
const describe = (history: ReadHistory, number: number) => {
  const version = versionsOf(history.weights).find((one) => one.version === number)
  if (!version) throw new InstarError('unknown_version', `The policy has no version ${number}.`, { version: number })
  const row = batchFinder(history)(version)
  const batch = row && history.batchOf(row)
  const computed = batch?.update?.event ?? null
  return {
    version: number,
    parent: version.parent,
    sha256: version.adapter,
    status: statusesOf(history.weights)(number),
    why: whyOf(history.weights, version),
    imported: number === 0 ? (history.weights.started?.imported ?? null) : null,
    published_at: isoTime(version.at),
    source: version.published?.source ?? null,
    served: servedIntervals(history.weights, number).map(({ from, to }) => ({ from: isoTime(from), to: isoTime(to) })),
    gate: version.published?.figures ?? null,
    limits: version.published?.limits ?? null,
    update:
      batch && computed
        ? {
            figures: computed.figures,
            fingerprint: computed.fingerprint,
            batch: batch.sealed.number,
            seed: batch.sealed.seed,
            loss: batch.sealed.loss,
            settings: batch.sealed.settings,
            started_at: isoTime(computed.startedAt),
            finished_at: isoTime(computed.at),
          }
        : null,
    turns: (batch?.sealed.items ?? []).map((item) => ({
      turn_id: item.turn,
      session_id: item.session,
      version: item.version,
      reward: item.reward,
      turn_score: item.turnScore ?? null,
      outcome: item.outcome ?? null,
      baseline: item.baseline,
      advantage: item.advantage,
      hint: writtenText(item.hint),
    })),
    dropped: (batch?.sealed.dropped ?? []).map((drop) => ({ turn_id: drop.turn, reason: drop.reason })),
  }
}

type Description = ReturnType<typeof describe>

/** The random part of a turn id is at its end. */
const shortTurnId = (turn: string): string => turn.slice(-12)

const minuteOf = (time: string | null): string => minuteText(time === null ? null : Date.parse(time)) ?? '–'

const figuresText = (title: string, figures: Readonly<Record<string, number>> | null | undefined): string => {
  if (!figures || Object.keys(figures).length === 0) return ''
  const lines = Object.entries(figures).map(
    ([name, value]) =>
      `  ${escapeControls(name).padEnd(24)} ${Number.isInteger(value) ? value : value.toPrecision(5)}\n`,
  )
  return `\n${title}\n${lines.join('')}`
}

const importedText = (imported: Description['imported']): string =>
  imported
    ? escapeControls(
        `imported from ${imported.source}: rank ${imported.rank}, alpha ${imported.alpha}, ${imported.tensorCount} tensors ` +
          `(${imported.targets.join(', ')}), digest ${imported.tensors}, for ${imported.baseModel === '' ? 'a base that it does not name' : imported.baseModel}`,
      ) + '\n'
    : ''

const text = ({ version, status, why, parent, published_at: publishedAt, ...shown }: Description): string =>
  [
    `version ${version}: ${status}, ${escapeControls(why)}${parent === null ? '' : `, from version ${parent}`}${publishedAt === null ? '' : `, ${minuteOf(publishedAt)} UTC`}\n`,
    `adapter ${shown.sha256 ?? 'none (the base model)'}\n`,
    importedText(shown.imported),
    shown.source ? `promoted from ${escapeControls(shown.source.policy)}, version ${shown.source.version}\n` : '',
    ...shown.served.map(({ from, to }) => `served ${minuteOf(from)} – ${to === null ? 'now' : minuteOf(to)}\n`),
    figuresText('gate', shown.gate),
    figuresText('limits of the gate', shown.limits),
    figuresText('update', shown.update?.figures),
    shown.turns.length > 0
      ? `\n${table(
          [
            { name: 'turn', of: (turn) => shortTurnId(turn.turn_id) },
            { name: 'sampled by', of: (turn) => turn.version },
            { name: 'reward', of: (turn) => turn.reward },
            { name: 'own score', of: (turn) => turn.turn_score ?? '' },
            { name: 'outcome', of: (turn) => turn.outcome ?? '' },
            { name: 'baseline', of: (turn) => turn.baseline },
            { name: 'advantage', of: (turn) => turn.advantage },
            { name: 'hint', of: (turn) => turn.hint ?? '' },
          ],
          shown.turns,
        )}`
      : '',
    shown.dropped.length > 0
      ? `dropped: ${shown.dropped.map((drop) => `${shortTurnId(drop.turn_id)} (${escapeControls(drop.reason)})`).join(', ')}\n`
      : '',
  ].join('')

export default command('show', {
  usage: 'N',
  help: `
Prints one version, from the log: its parent, the turns that it was trained on, the figures of the update and of the
gate, and when it served.

--json: {version, parent, sha256, status, why, published_at, served: [{from, to}], gate, update:
{figures, fingerprint, seed, loss, settings, started_at, finished_at}, turns: [{turn_id, session_id, version,
reward, baseline, advantage, hint}], dropped: [{turn_id, reason}], source, limits, imported: of version 0, an adapter from elsewhere: {adapter, adapterBytes,
tensors, tensorCount, config, rank, alpha, targets, baseModel, source} or null}. limits: the gate's settings for its verdict`,
  options: {},
  overrides: ['data', 'archive'],
  positionals: [1, 1],
  async run({ config, positionals, print, stop }) {
    const number = parseVersion(positionals[0]!)
    const description = await withVersionHistory(config, (history) => describe(history, number), stop)
    print(description, () => text(description))
  },
})
