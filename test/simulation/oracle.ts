/**
 * What must hold at the end of a schedule, computed from the clients' records and the plain log (history/), never with
 * the folds and decisions under test. Each problem is one sentence.
 */
import type { Event, TurnFacts } from '@instar/events'
import { BRANCH } from './branch.ts'
import { updateIn } from './history/chains.ts'
import type { Decided } from './history/decision.ts'
import { Facts, FOLLOWED } from './history/facts.ts'
import { History, type Past } from './history/past.ts'
import { rightBegin, rightRest } from './history/right-begins.ts'
import { isEndedEpisode, rightEnd } from './history/right-ends.ts'
import { isCovered, rightClosing, rightScore, saysAborted } from './history/right-scores.ts'
import { rightBatch, rightOutcome, usableOf, waitingFor } from './history/right-training.ts'
import { rightAnswer, rightCommand, rightVerdict } from './history/right-versions.ts'
import { rewardOf } from './history/scores.ts'
import { causeOf, isOpen, ratingOf } from './history/session.ts'
import { POLICY, trained } from './services.ts'
import { agree, toldEpisodes } from './states.ts'
import type { World } from './world.ts'

type Says = (holds: boolean, problem: string) => void

export const check = (world: World): { problems: string[]; versions: number; rejected: number; batches: number } => {
  const problems: string[] = []
  const says: Says = (holds, problem) => {
    if (!holds) problems.push(problem)
  }
  const { log } = world
  const history = new History(new Facts(FOLLOWED.flatMap((topic) => log.all(topic))))
  const end = history.past()
  for (const decided of world.decisions) {
    const { chosen } = decided.note
    const then = chosen ? history.past(chosen.seen, decided.left) : null
    right(world, history.past(decided.seen, decided.left), then, decided, (holds, problem) =>
      says(holds, `${decided.writer} ${problem}`),
    )
  }
  once(world.decisions, says)
  for (const rest of world.rests) rightRest(history.past(rest.seen), rest, world.decisions, POLICY, says)
  for (const { by, ordered, seen, refused } of world.told) {
    says(
      rightAnswer(history.past(seen), ordered, refused),
      `${by} answers command ${ordered.request} with ${refused ?? 'done'}`,
    )
  }
  answers(world, end, says)
  settled(world, end, history.past(undefined, world.trainers.find((one) => one.mine(0))?.left), says)
  bytes(end, says)
  for (const { by, seen, left, episodes } of world.tells) {
    const [is, should] = [episodes, toldEpisodes(history.past(seen, left))].map((one) => JSON.stringify(one))
    says(is === should, `${by} knows of episodes ${is}, scores say ${should}`)
  }
  agree(world, history, says)
  for (const process of world.processes) says(process.waits() === null, `${process.name} waits for ${process.waits()}`)
  const { versions, verdicts } = end.line(POLICY)
  return {
    problems,
    versions: versions.length - 1,
    rejected: verdicts.filter(({ event }) => event.type === 'VersionRejected').length,
    batches: end.training(POLICY).batches.length,
  }
}

/** Whether a record was correct for a writer that had read this much. `then`: when it chose a batch ahead. */
const right = (world: World, past: Past, then: Past | null, decided: Decided, says: Says): void => {
  const { event, note } = decided
  if ('policy' in event && event.policy === BRANCH) return
  switch (event.type) {
    case 'TurnCaptured':
    case 'TurnAborted':
    case 'TurnSampled': {
      const { versions, head } = past.line(event.policy)
      if (event.type !== 'TurnSampled')
        says(
          event.version === head && event.adapter === (versions.find(({ number }) => number === head)?.adapter ?? null),
          `answers with version ${event.version}, the head is ${head}`,
        )
      if (note.session)
        return says(
          event.session === note.session || isTwin(past, event, note.before),
          `takes a request of ${note.session} for one of ${event.session}`,
        )
      if (event.type === 'TurnSampled') return undefined
      const cut = begunAndCut(past, event.digest)
      if (cut.length > 0)
        return says(cut.includes(event.session), `begins ${event.session} for a request that was cut in ${cut.join()}`)
      return says(
        past.session(event.session).turns.length === 0,
        `takes the first request of somebody for one of ${event.session}`,
      )
    }
    case 'FeedbackGiven':
      return says(
        event.turn === null ? past.session(event.session).turns.length > 0 : past.turn(event.turn) !== undefined,
        `takes feedback on ${event.turn ?? event.session}, which it has not read`,
      )
    case 'SessionClosed':
      return rightClosing(past, decided, event, world.rules, says)
    case 'TurnScored':
    case 'TurnSkipped':
    case 'ScoreRevised':
      return rightScore(past, decided, event, world.rules, says)
    case 'EpisodeBegun':
      return rightBegin(past, decided, event, says)
    case 'EpisodeEnded':
      return rightEnd(past, decided, event, says)
    case 'BatchSealed':
      return rightBatch(past, then, decided, event, world.training, says)
    case 'UpdateComputed':
    case 'UpdateFailed':
      return rightOutcome(past, event, says)
    case 'LineStarted':
      return says(past.line(event.policy).started === null, 'starts a line that is there')
    case 'VersionPublished':
    case 'VersionRejected':
      return rightVerdict(past, decided, event, BRANCH, says)
    case 'HeadMoved':
    case 'LearningFrozen':
      return rightCommand(past, decided, event, says)
    case 'TrainerBound':
    case 'TrainerScored':
    case 'UpdateRequested':
    case 'SessionLinked':
    case 'ResponseDeleted':
    case 'BlobChunk':
    case 'ReadersUpgraded':
    case 'SettingsChanged':
    case 'StateCheckpointed':
    case 'LogCut':
      return undefined
  }
}

/** A client that sent a request twice and got two equal answers continues from either; they cannot be told apart. */
const isTwin = (past: Past, { session, after }: TurnFacts, before: string | null | undefined): boolean =>
  past.session(session).turns.some(({ event }) => event.digest === before && event.answer.loose === after?.loose)

/** Sessions with this request alone, which was never answered in full. */
const begunAndCut = (past: Past, digest: string): string[] =>
  past
    .sessions()
    .filter(
      ([, { turns }]) =>
        turns.length > 0 &&
        turns.every(
          ({ event, closedBy }) => event.type === 'TurnAborted' && event.digest === digest && closedBy === null,
        ),
    )
    .map(([name]) => name)

/** One life sends a record once. */
const once = (decisions: readonly Decided[], says: Says): void => {
  const said = new Map<object, Set<string>>()
  for (const { event, life, writer } of decisions) {
    const what = thing(event)
    if (what === null) continue
    const known = said.get(life) ?? new Set()
    says(!known.has(what), `${writer} says again: ${what}`)
    said.set(life, known.add(what))
  }
}

const thing = (event: Event): string | null =>
  event.type === 'TurnScored' || event.type === 'TurnSkipped' || event.type === 'ScoreRevised'
    ? // An abort is said with a rank once it is found that the turn has a score.
      `${event.policy} scores ${event.turn} for ${event.cause}${event.rank === null ? '' : ' ranked'}`
    : event.type === 'SessionClosed' && event.why === 'idle'
      ? `closes ${event.open.join()}`
      : event.type === 'EpisodeEnded'
        ? `${event.policy} ends ${event.session} by ${event.closing}`
        : event.type === 'EpisodeBegun'
          ? `${event.policy} begins ${event.session} as ${event.task}`
          : null

/** Answered and acknowledged records are on the log, in their place. */
const answers = (world: World, history: Past, says: Says): void => {
  const decoder = new TextDecoder()
  for (const client of world.clients) {
    for (const [i, { turn, text }] of client.received.entries()) {
      const event = history.turn(turn)?.event
      says(
        event?.type === 'TurnCaptured' && decoder.decode(event.text.bytes) === text,
        `${client.name} received ${text} as ${turn}, the log has ${event?.type ?? 'nothing'}`,
      )
      const before = client.received[i - 1]
      if (!before) continue
      const follows = history.turn(turn)?.follows
      const followed = follows ? history.turn(follows)?.event : undefined
      const said = followed && decoder.decode(followed.text.bytes)
      says(
        said?.trim() === before.text.trim(),
        `${turn} goes on from ${before.text}, the join says ${said ?? 'nothing'}`,
      )
      const alike = history
        .session(before.session)
        .turns.filter(({ event: one }) => decoder.decode(one.text.bytes).trim() === before.text.trim())
      const twin = followed?.digest === history.turn(before.turn)?.event.digest
      if (alike.length > 1 || twin) continue
      says(follows === before.turn, `${turn} continues ${before.turn}, the join says ${follows}`)
      const done = history.turn(before.turn)!
      says(done.next !== null || done.closedBy !== null, `${before.turn} was continued and has no next state`)
    }
    const given = new Set(history.turns().flatMap(({ feedback }) => feedback.map(({ event }) => event.id)))
    for (const id of client.feedback) says(given.has(id), `feedback ${id} was acknowledged and is not there`)
  }
  const { requests } = history.line(POLICY)
  says(new Set(requests).size === requests.length, `a command counts twice: ${requests.join()}`)
}

/** Of each turn that a batch may take, scores say the same outcome and abort as the turns themselves. */
const sameRewards = (history: Past, ofTrainer: Past, says: Says): void => {
  const ofLog = new Map(waitingFor(history, POLICY).map(({ turn }) => [turn.event.turn, turn]))
  for (const { turn, score } of waitingFor(ofTrainer, POLICY)) {
    const { event } = turn
    if (score === null || event.type === 'TurnAborted' || !event.trainable) continue
    const [told, real] = [turn, ofLog.get(event.turn)].map((one) =>
      JSON.stringify([one?.outcome?.id ?? null, (one?.discardedBy ?? null) === null]),
    )
    says(told === real, `scores say of ${event.turn}, which waits for a batch, ${told}, the turns ${real}`)
  }
}

/** No process has work left. `ofTrainer`: as the trainer knows the history that seals. */
const settled = (world: World, history: Past, ofTrainer: Past, says: Says): void => {
  const line = history.line(POLICY)
  const scores = history.scores(POLICY)
  for (const [name, session] of history.sessions()) {
    says(!session.turns.some(isOpen), `session ${name} is left open`)
    const end = history.ends(POLICY).get(name)?.event
    says(
      isEndedEpisode(session) ? end?.outcome === (session.outcome?.value ?? null) : end === undefined,
      `the episode ${name} ended with ${session.outcome?.value}, on scores with ${end ? end.outcome : 'nothing'}`,
    )
    for (const turn of session.turns) {
      const score = scores.get(turn.event.turn)
      const rating = ratingOf(turn)
      if (turn.discardedBy !== null) {
        says(
          score === undefined ? rating === null && causeOf(session, turn) === null : rewardOf(score) === null,
          `${turn.event.turn} of an aborted episode has ${score ? 'a reward' : 'no score'}`,
        )
        says(
          !score || !isCovered(session, turn) || saysAborted(score),
          `scores do not say that ${turn.event.turn}, which an outcome covers, is of an aborted episode`,
        )
      } else if (rating)
        says(
          score?.fact.event.rank?.id === rating.event.id,
          `${turn.event.turn} was rated by ${rating.event.id}, in force is ${score?.fact.event.rank?.id ?? 'a judge'}`,
        )
      else
        says(
          (score !== undefined) === (causeOf(session, turn) !== null),
          `${turn.event.turn} has ${score ? 'a' : 'no'} score, and ${causeOf(session, turn) ?? 'nothing'} came of it`,
        )
    }
  }
  sameRewards(history, ofTrainer, says)
  const { batches } = history.training(POLICY)
  const last = batches.at(-1)
  const isJudged = (update: string): boolean => line.verdicts.some(({ event }) => event.update === update)
  for (const { outcome, sealed } of batches) {
    says(outcome !== null, `batch ${sealed.number} has no outcome`)
    if (outcome?.event.type !== 'UpdateComputed' || isJudged(outcome.id)) continue
    says(line.frozen && sealed.parent.version === line.head, `batch ${sealed.number} has no verdict`)
  }
  if (!line.started || line.frozen || (last?.outcome?.event.type === 'UpdateComputed' && !isJudged(last.outcome.id)))
    return
  const { training, now } = world
  const { groups, others } = usableOf(ofTrainer, waitingFor(ofTrainer, POLICY), POLICY, line, now, training)
  const usable = others.length + (groups ?? []).flat().length
  says(usable < training.batchSize, `${usable} turns wait for a batch of ${training.batchSize}`)
}

/** Every result can be computed again, and refers to the right bytes. */
const bytes = (history: Past, says: Says): void => {
  const { batches } = history.training(POLICY)
  const { versions, chain } = history.line(POLICY)
  for (const { sealed, outcome } of batches) {
    const parent = versions.find(({ number }) => number === sealed.parent.version)
    says(
      parent?.adapter === sealed.parent.adapter && parent.state === sealed.parent.state,
      `batch ${sealed.number} stands on other bytes than version ${sealed.parent.version}`,
    )
    if (outcome?.event.type !== 'UpdateComputed') continue
    const again = trained(
      sealed,
      sealed.items.map(({ reward }) => reward),
      outcome.event.fingerprint.build,
    )
    says(again.adapter === outcome.event.adapter, `batch ${sealed.number} computed again gives other bytes`)
  }
  for (const { event } of chain) {
    if (event.type !== 'VersionPublished') continue
    const update = updateIn(batches, event.update) ?? updateIn(history.training(BRANCH).batches, event.update)
    says(
      update?.outcome.event.adapter === event.adapter,
      `version ${event.number} comes from an update that does not count`,
    )
  }
}
