/**
 * The state of a process at the end of a schedule, compared with the history by name, since most of it may be in a
 * file.
 */
import {
  updateLine,
  weightLine,
  type ScoresState,
  type TurnsState,
  type UpdatesState,
  type WeightsState,
} from '@instar/events'
import { bestContent, rejectionsInARow, spentIn, updateIn } from './history/chains.ts'
import type { History, Past } from './history/past.ts'
import { isOfEpisode } from './history/episodes.ts'
import { waitingFor } from './history/right-training.ts'
import { rewardOf } from './history/scores.ts'
import type { PublisherState } from '../../services/publisher/src/core/state.ts'
import type { World } from './world.ts'
import { BRANCH } from './branch.ts'
import { POLICY } from './services.ts'

type Says = (holds: boolean, problem: string) => void
/** The value in a process in place of that in the history. */
type Compare = (what: string, is: unknown, says: unknown) => void

export const agree = (world: World, all: History, says: Says): void => {
  const history = all.past()
  const compareOf =
    (who: string): Compare =>
    (what, is, said) => {
      const [expected, found] = [JSON.stringify(is) ?? 'nothing', JSON.stringify(said) ?? 'nothing']
      says(expected === found, `${who} has ${what} as ${found}, the log says ${expected}`)
    }
  for (const gateway of world.gateways) {
    const compare = compareOf(gateway.name)
    const { index, weights } = gateway.state
    turns(history, index.fold, compare, (session) => !index.forgotten.has(session))
    line(history, weights, POLICY, compare)
  }
  for (const scorer of world.scorers) {
    const compare = compareOf(scorer.name)
    const { turns: held, scores: byPolicy, needed, weights, begins, beginning, ends, ending } = scorer.state
    line(history, weights, POLICY, compare)
    turns(history, held, compare, (session) => scorer.reads(session))
    for (const policy of [POLICY, BRANCH]) scores(history, byPolicy.get(policy), policy, compare)
    compare('turns that need a score', [], [...needed])
    compare('episodes of which the beginning is missing', [], [...beginning.sessions])
    compare('episodes of which the end is missing', [], [...ending.sessions])
    for (const [name] of history.sessions()) {
      const end = history.ends(POLICY).get(name)?.event
      const known = ends.get(POLICY)?.get(name)
      const begun = end ? undefined : history.begins(POLICY).get(name)?.event.task
      compare(`the beginning of ${name}`, begun, begins.get(POLICY)?.get(name)?.task)
      compare(`the end of ${name}`, end && [end.closing, end.outcome], known && [known.closing, known.outcome])
    }
  }
  for (const { name, state, left } of world.trainers) {
    const compare = compareOf(name)
    const known = all.past(undefined, left)
    if (left) toldTurns(known, state.turns, compare)
    else turns(history, state.turns, compare)
    compare('whether it reads turns', left === null, state.reads === 'turns')
    compare(
      'episodes that scores tell of',
      toldEpisodes(known).map(([session]) => session),
      [...state.told].map(([session]) => session).sort(),
    )
    scores(history, state.scores, POLICY, compare)
    updates(history, state.updates, POLICY, compare)
    trained(history, state.updates, compare)
    line(history, state.weights, POLICY, compare)
    compare(
      'turns that wait for a batch',
      waitingFor(known, POLICY)
        .map(({ turn }) => turn.event.turn)
        .sort(),
      [state.pending, state.episodes]
        .flatMap((queues) => [...queues.keys()].flatMap((name) => [...queues.get(name)!]))
        .sort(),
    )
  }
  for (const { name, state } of world.publishers) {
    const compare = compareOf(name)
    scores(history, state.scores, POLICY, compare)
    places(history, state.places, compare)
    for (const policy of [POLICY, BRANCH]) {
      updates(history, state.updates, policy, compare)
      line(history, state.weights, policy, compare)
    }
    const { verdicts } = history.line(POLICY)
    const open = history
      .training(POLICY)
      .batches.filter(
        ({ outcome }) =>
          outcome?.event.type === 'UpdateComputed' && !verdicts.some(({ event }) => event.update === outcome.id),
      )
    compare(
      'batches without a verdict',
      open.map(({ fact }) => fact.id),
      [...state.unsettled],
    )
    compare('turns that were found good and not trained on', goodTurns(history), [...state.positive])
  }
}

const turns = (
  history: Past,
  state: TurnsState,
  compare: Compare,
  remembered: (session: string) => boolean = () => true,
): void => {
  for (const [name, session] of history.sessions()) {
    if (!remembered(name) || session.turns.length === 0) continue
    const held = state.sessions.get(name)
    compare(
      `session ${name}`,
      [
        session.parent,
        session.lastAt,
        session.turns.map(({ event }) => event.turn),
        session.outcome && [session.outcome.id, session.outcome.value, session.outcome.at],
        session.isClosed,
      ],
      held && [
        held.parent,
        held.lastAt,
        held.turns.map(({ turn }) => turn),
        held.outcome && [held.outcome.record, held.outcome.value, held.outcome.at],
        held.closed,
      ],
    )
    for (const turnOf of session.turns) {
      const { event, fact, shown, follows, next, closedBy, discardedBy, outcome, feedback, attempt } = turnOf
      const turn = state.turns.get(event.turn)
      const status = event.type === 'TurnAborted' ? 'aborted' : 'complete'
      compare(
        event.turn,
        [
          fact.id,
          status,
          event.kind,
          event.version,
          event.group,
          shown,
          event.trainable,
          attempt,
          follows,
          next,
          closedBy !== null,
          closedBy,
          discardedBy,
          outcome?.id ?? null,
          event.task ?? null,
          feedback.map((one) => [one.id, one.event.value]),
        ],
        turn && [
          turn.record,
          turn.status,
          turn.kind,
          turn.version,
          turn.group,
          turn.shown,
          turn.trainable,
          turn.attempt,
          turn.follows,
          turn.next,
          turn.closed,
          turn.closedBy,
          turn.discardedBy,
          turn.outcomeBy,
          turn.task,
          turn.feedback.map(({ record, value }) => [record, value]),
        ],
      )
    }
  }
}

/** Turns as far as a trainer knows them from scores. */
const toldTurns = (known: Past, state: TurnsState, compare: Compare): void => {
  for (const [name, session] of known.sessions()) {
    const held = state.sessions.get(name)
    compare(
      `session ${name}`,
      [
        session.turns.map(({ event }) => event.turn),
        session.outcome && [session.outcome.id, session.outcome.value, session.outcome.at],
        session.isClosed,
      ],
      [
        (held?.turns ?? []).map(({ turn }) => turn),
        held?.outcome ? [held.outcome.record, held.outcome.value, held.outcome.at] : null,
        held?.closed ?? false,
      ],
    )
    for (const { event, fact, shown, discardedBy, outcome } of session.turns) {
      const turn = state.turns.get(event.turn)
      const isUsable = discardedBy === null && event.type !== 'TurnAborted' && event.trainable
      const { version, policy, subject, group, candidates, key, task = null, at, finishedAt } = event
      compare(
        event.turn,
        [fact.id, version, policy, subject, group, candidates, key, task, at, finishedAt].concat([
          shown,
          discardedBy !== null,
          isUsable,
          outcome?.id ?? null,
        ] as never),
        turn && [
          turn.record,
          turn.version,
          turn.policy,
          turn.subject,
          turn.group,
          turn.candidates,
          turn.key,
          turn.task,
          turn.at,
          turn.finishedAt,
          turn.shown,
          turn.discardedBy !== null,
          turn.discardedBy === null && turn.status === 'complete' && turn.trainable,
          turn.outcomeBy,
        ],
      )
    }
  }
}

/** Episodes that scores tell of, as long as they run, or turns of them are awaited or wait for a batch. */
export const toldEpisodes = (known: Past): [session: string, task: string, awaited: string[]][] => {
  const waiting = waitingFor(known, POLICY).filter(({ turn }) => isOfEpisode(known.session(turn.event.session), turn))
  const sessions = new Set(waiting.map(({ turn }) => turn.event.session))
  return known
    .sessions()
    .filter(
      ([name, { isTold, isClosed, awaited }]) => isTold && (!isClosed || awaited.length > 0 || sessions.has(name)),
    )
    .map(([name, { task, awaited }]): [string, string, string[]] => [name, task, [...awaited].sort()])
    .sort(([a], [b]) => (a < b ? -1 : 1))
}

const scores = (history: Past, state: ScoresState | undefined, policy: string, compare: Compare): void => {
  const known = history.scores(policy)
  for (const {
    event: { turn },
  } of history.turns()) {
    const score = known.get(turn)
    const held = state?.turns.get(turn)
    const { fact, first, revision } = score ?? {}
    compare(
      `the score of ${turn}`,
      score && [
        fact!.id,
        rewardOf(score),
        fact!.event.rank,
        revision,
        first!.event.at,
        fact!.event.type === 'TurnSkipped' ? fact!.event.reason : null,
      ],
      held && [held.score, held.reward, held.rank, held.revision, held.at, held.reason],
    )
  }
}

/** Where the turns with a score are, by their own records. */
const places = (history: Past, state: PublisherState['places'], compare: Compare): void => {
  const known = history.scores(POLICY)
  for (const [, { turns: all }] of history.sessions())
    for (const { event } of all) {
      const { turn, at, finishedAt } = event
      const held = state.get(turn)
      compare(
        `the place of ${turn}`,
        known.has(turn) ? [at, finishedAt, all[0]?.event.at] : null,
        held ? [held.at, held.finishedAt, held.begunAt] : null,
      )
    }
}

const updates = (history: Past, state: UpdatesState, policy: string, compare: Compare): void => {
  const { tip, batches } = history.training(policy)
  const held = updateLine(state, policy)
  const failed = batches.filter(({ outcome }) => outcome?.event.type === 'UpdateFailed').length
  compare(
    `${policy}'s batches`,
    [tip, batches.length, failed, batches.at(-1)?.fact.id ?? ''],
    [held.chain.tip, held.count, held.failed, held.last],
  )
  for (const { fact, outcome } of batches) {
    const status = outcome === null ? 'sealed' : outcome.event.type === 'UpdateFailed' ? 'failed' : 'computed'
    const update = status === 'computed' ? outcome!.id : null
    const batch = held.byId.get(fact.id)
    compare(`batch ${fact.id}`, [status, update], batch && [batch.status, batch.update?.id ?? null])
    if (update) compare(`the batch of ${update}`, updateIn(batches, update)?.fact.id, held.byUpdate.get(update))
  }
}

/** State that only a trainer has. */
const trained = (history: Past, state: UpdatesState, compare: Compare): void => {
  const { batches } = history.training(POLICY)
  const held = updateLine(state, POLICY)
  const spent = new Set(spentIn(batches))
  for (const {
    event: { turn },
  } of history.turns())
    compare(`whether ${turn} is spent`, spent.has(turn), held.spent.has(turn))
  const baselines = new Map(
    batches.flatMap(({ sealed }) => sealed.baselines).map(({ subject, value, count }) => [subject, { value, count }]),
  )
  for (const [subject, baseline] of baselines)
    compare(`the baseline of ${subject}`, baseline, held.baselines.get(subject))
}

const line = (history: Past, state: WeightsState, policy: string, compare: Compare): void => {
  const { tip, head, frozen, versions, verdicts, requests, chain, ...rest } = history.line(policy)
  const held = weightLine(state, policy)
  const moves = chain.filter(({ event }) => event.type === 'VersionPublished' || event.type === 'HeadMoved').length
  const content = bestContent({ tip, head, frozen, versions, verdicts, requests, chain, ...rest })
  compare(
    `${policy}'s line`,
    [
      tip,
      head,
      frozen,
      Math.max(0, ...versions.map(({ number }) => number)),
      verdicts.length,
      moves,
      Number.isFinite(content) ? content : null,
      rejectionsInARow(chain),
    ],
    [
      held.chain.tip,
      held.head,
      held.frozen,
      held.last,
      held.verdictCount,
      held.moveCount,
      held.bestContent,
      held.rejectionsInARow,
    ],
  )
  for (const { number, parent, adapter, state: bytes, update, record } of versions) {
    const version = held.versions.get(number)
    compare(
      `version ${number}`,
      [parent, adapter, bytes, update, record],
      version && [version.parent, version.adapter, version.state, version.update, version.record],
    )
  }
  for (const { event } of verdicts)
    compare(
      `the verdict on ${event.update}`,
      event.type === 'VersionPublished',
      held.verdicts.get(event.update)?.accepted,
    )
  for (const request of requests) compare(`whether ${request} was done`, true, held.requests.has(request))
}

const isUsable = (history: Past, id: string): boolean => {
  const turn = history.turn(id)
  return turn !== undefined && turn.event.type !== 'TurnAborted' && turn.event.trainable && turn.discardedBy === null
}

/**
 * Usable turns on which neither the line nor the branch was trained, in the order in which their scores became positive. An aborted
 * episode has none: its turns are skipped.
 */
const goodTurns = (history: Past): string[] => {
  const batches = [POLICY, BRANCH].flatMap((policy) => history.training(policy).batches)
  const trained = new Set(batches.flatMap(({ sealed }) => sealed.items.map(({ turn }) => turn)))
  const good = [...history.scores(POLICY)]
    .filter(([turn, score]) => (rewardOf(score) ?? 0) > 0 && !trained.has(turn) && isUsable(history, turn))
    .map(([turn, { counted }]) => {
      const bad = counted.findLastIndex(({ event }) => event.type === 'TurnSkipped' || event.reward <= 0)
      return { turn, since: counted[bad + 1]!.at }
    })
  return good.toSorted((a, b) => a.since - b.since).map(({ turn }) => turn)
}
