/** What must hold when everything has settled. Each problem is one sentence. */
import {
  foldScores, foldTurns, foldUpdates, foldWeights, initialScores, initialTurns, initialUpdates, initialWeights, outranks, updateLine, weightLine,
  type Event, type Logged, type MemoryScores, type MemoryTurns, type MemoryUpdates, type MemoryWeights, type Rank, type ScoresEvent, type TurnsEvent, type UpdatesEvent, type WeightsEvent,
} from '@instar/events'
import { bend } from './rules.ts'
import { BRANCH, POLICY, trained } from './services.ts'
import type { World } from './world.ts'

type Counted = { logged: Logged<Event>; /** The weights line as it was before. */ head: number; frozen: boolean }
type Reader = { turns: MemoryTurns; scores: Map<string, MemoryScores>; updates: MemoryUpdates; weights: MemoryWeights; counted: Counted[] }

/** Reads everything, partition after partition in the given order. */
const readAll = (world: World, order: (names: string[]) => string[]): Reader => {
  const reader: Reader = { turns: initialTurns(), scores: new Map(), updates: initialUpdates(), weights: initialWeights(), counted: [] }
  const scores = (policy: string): MemoryScores => {
    const own = reader.scores.get(policy) ?? initialScores()
    reader.scores.set(policy, own)
    return own
  }
  for (const name of order([...world.log.partitions.keys()])) {
    for (const record of world.log.partitions.get(name)!) {
      const logged = bend(world.off, { ...reader, scores }, record)
      if (!logged) continue
      const { event } = logged
      const line = 'policy' in event ? weightLine(reader.weights, event.policy) : null
      const before = { logged, head: line?.head ?? 0, frozen: line?.frozen ?? false }
      if (fold(reader, scores, logged)) reader.counted.push(before)
    }
  }
  return reader
}

const fold = (reader: Reader, scores: (policy: string) => MemoryScores, logged: Logged<Event>): boolean => {
  switch (logged.topic) {
    case 'turns': return foldTurns(reader.turns, logged as Logged<TurnsEvent>).counted
    case 'scores': return foldScores(scores((logged.event as ScoresEvent).policy), logged as Logged<ScoresEvent>).counted
    case 'updates': return foldUpdates(reader.updates, logged as Logged<UpdatesEvent>).counted
    case 'weights': return foldWeights(reader.weights, logged as Logged<WeightsEvent>).counted
    case 'blobs':
    case 'upgrades': return false
  }
}

const sorted = <T>(items: Iterable<T>): T[] => [...items].sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1))
const turnsView = (state: MemoryTurns, sessions?: ReadonlySet<string>): string =>
  JSON.stringify(sorted([...state.turns.values()].filter((t) => !sessions || sessions.has(t.session)).map((t) => [t.turn, t.record, t.status, t.attempt, t.follows, t.next, t.closed, t.closedBy, t.feedback.map((f) => f.id)])))
const scoresView = (state: MemoryScores | undefined): string =>
  JSON.stringify(sorted([...(state?.turns.values() ?? [])].filter((s) => s.policy === POLICY).map((s) => [s.turn, s.score, s.reward, s.rank, s.revision])))
const updatesView = (state: MemoryUpdates, policy: string): string => {
  const line = updateLine(state, policy)
  return JSON.stringify([line.chain.tip, line.batches.map((b) => [b.id, b.status, b.update?.id]), sorted(line.spent), sorted(line.baselines)])
}
const weightsView = (state: MemoryWeights, policy: string): string => {
  const line = weightLine(state, policy)
  return JSON.stringify([line.chain.tip, line.head, line.frozen, sorted([...line.versions.values()].map((v) => [v.version, v.parent, v.adapter, v.record])), sorted(line.verdicts), line.moves.map((m) => m.record), sorted(line.requests)])
}

export const check = (world: World): { problems: string[]; versions: number; rejected: number } => {
  const problems: string[] = []
  const says = (holds: boolean, problem: string): void => {
    if (!holds) problems.push(problem)
  }
  const truth = readAll(world, (names) => names)
  agree(world, truth, says)
  answers(world, truth, says)
  scores(truth, says)
  batches(truth, says)
  versions(truth, says)
  for (const process of world.processes) says(process.waits() === null, `${process.name} waits for ${process.waits()}`)
  const line = weightLine(truth.weights, POLICY)
  return { problems, versions: line.versions.size - 1, rejected: line.rejected.length }
}

type Says = (holds: boolean, problem: string) => void

/** All readers, in any order of topics, and all processes have come to the same. */
const agree = (world: World, truth: Reader, says: Says): void => {
  const others = [readAll(world, (names) => names.toReversed()), readAll(world, (names) => names.toSorted((a, b) => (a.slice(-1) + a < b.slice(-1) + b ? -1 : 1)))]
  const same = (who: string, what: string, one: string, other: string): void => {
    let at = 0
    while (at < one.length && one[at] === other[at]) at += 1
    says(one === other, `${who} disagrees on ${what}: …${other.slice(Math.max(0, at - 60), at + 60)}… instead of …${one.slice(Math.max(0, at - 60), at + 60)}…`)
  }
  const turns = turnsView(truth.turns)
  const scored = scoresView(truth.scores.get(POLICY))
  const [updates, weights] = [updatesView(truth.updates, POLICY), weightsView(truth.weights, POLICY)]
  for (const reader of others) {
    same('a reader', 'turns', turns, turnsView(reader.turns))
    same('a reader', 'scores', scored, scoresView(reader.scores.get(POLICY)))
    same('a reader', 'batches', updates, updatesView(reader.updates, POLICY))
    same('a reader', 'versions', weights, weightsView(reader.weights, POLICY))
    same('a reader', 'the branch', updatesView(truth.updates, BRANCH) + weightsView(truth.weights, BRANCH), updatesView(reader.updates, BRANCH) + weightsView(reader.weights, BRANCH))
  }
  for (const gateway of world.gateways) {
    const kept = new Set(gateway.state.index.memory!.fold.sessions.keys())
    same(gateway.name, 'turns', turnsView(truth.turns, kept), turnsView(gateway.state.index.memory!.fold))
    same(gateway.name, 'versions', weights, weightsView(gateway.state.weights, POLICY))
  }
  for (const scorer of world.scorers) {
    same(scorer.name, 'turns', turns, turnsView(scorer.state.turns))
    same(scorer.name, 'scores', scored, scoresView(scorer.state.scores.get(POLICY)))
  }
  for (const { name, state } of [...world.trainers, ...world.publishers]) {
    same(name, 'turns', turns, turnsView(state.turns))
    same(name, 'scores', scored, scoresView(state.scores))
    same(name, 'batches', updates, updatesView(state.updates, POLICY))
    same(name, 'versions', weights, weightsView(state.weights, POLICY))
  }
}

/** What was answered or acknowledged is on the log, once. */
const answers = (world: World, truth: Reader, says: Says): void => {
  const records = new Map((['scores', 'updates', 'weights'] as const).flatMap((topic) => world.log.all(topic)).map((record) => [record.id, record.key]))
  for (const { logged } of truth.counted) says((records.get(logged.id) ?? logged.key) === logged.key, `${logged.event.type} of ${records.get(logged.id)} counts for ${logged.key}`)
  const turns = new Map(truth.counted.flatMap(({ logged: { event } }) => (event.type === 'TurnCaptured' ? [[event.turn, new TextDecoder().decode(event.text.bytes)] as const] : [])))
  const listed = new Set(truth.counted.flatMap(({ logged }) => {
    const original = world.log.all('turns').find((record) => record.id === logged.id)?.event
    return original?.type === 'SessionClosed' ? original.open : []
  }))
  for (const client of world.clients) {
    for (const [i, { turn, text }] of client.received.entries()) {
      says(turns.get(turn) === text, `${client.name} received ${text} as ${turn}, the log has ${turns.get(turn) ?? 'nothing'}`)
      if (i === 0) continue
      const before = truth.turns.turns.get(client.received[i - 1]!.turn)
      says(truth.turns.turns.get(turn)?.follows === before?.turn, `${turn} continues ${before?.turn}, the join says ${truth.turns.turns.get(turn)?.follows}`)
      says(before?.next !== null || before.closed, `${before?.turn} was continued and has no next state`)
    }
    for (const id of client.feedback) says([...truth.turns.sessions.values()].some((session) => session.feedback.has(id)), `feedback ${id} was acknowledged and is not there`)
  }
  for (const turn of truth.turns.turns.values()) says(!turn.closed || listed.has(turn.turn), `${turn.turn} is closed, and no closing names it`)
  const line = weightLine(truth.weights, POLICY)
  const commands = truth.counted.flatMap(({ logged: { event } }) => ('request' in event ? [event.request] : []))
  for (const request of line.requests) says(commands.filter((one) => one === request).length === 1, `command ${request} counts ${commands.filter((one) => one === request).length} times`)
}

/** One score of a judge for each turn that has come to something; feedback on top, the last one in force. */
const scores = (truth: Reader, says: Says): void => {
  const state = truth.scores.get(POLICY)
  const byJudges = new Map<string, number>()
  for (const { logged: { event } } of truth.counted) {
    if ((event.type === 'TurnScored' || event.type === 'TurnSkipped') && event.policy === POLICY && event.rank === null) byJudges.set(event.turn, (byJudges.get(event.turn) ?? 0) + 1)
  }
  for (const [turn, count] of byJudges) says(count === 1, `${turn} was scored ${count} times`)
  for (const turn of truth.turns.turns.values()) {
    const score = state?.turns.get(turn.turn)
    const latest = turn.feedback.map(({ id, at }): Rank => ({ at, id })).reduce<Rank | null>((best, one) => (outranks(one, best) ? one : best), null)
    if (latest) says(score?.rank?.id === latest.id, `${turn.turn} was rated by ${latest.id}, in force is ${score?.rank?.id ?? 'a judge'}`)
    else if (turn.status === 'complete' && turn.trainable) says((score !== undefined) === (turn.next !== null || turn.closed), `${turn.turn} has ${score ? 'a score' : 'none'}, its next state is ${turn.next}, closed ${turn.closed}`)
  }
}

/** Batches hold each turn once, with a score that counted, and their updates can be computed again. */
const batches = (truth: Reader, says: Says): void => {
  const line = updateLine(truth.updates, POLICY)
  const counted = new Map(truth.counted.map(({ logged }) => [logged.id, logged.event]))
  const used = new Set<string>()
  for (const [i, batch] of line.batches.entries()) {
    says(batch.sealed.number === i + 1, `batch ${i + 1} calls itself ${batch.sealed.number}`)
    for (const turn of [...batch.sealed.items, ...batch.sealed.dropped].map((item) => item.turn)) {
      says(!used.has(turn), `${turn} is in two batches`)
      used.add(turn)
    }
    for (const item of batch.sealed.items) {
      const score = counted.get(item.score)
      says((score?.type === 'TurnScored' || score?.type === 'ScoreRevised') && score.turn === item.turn && score.reward === item.reward, `batch ${i + 1} gives ${item.turn} a reward that no score has`)
    }
    const { parent } = batch.sealed
    const version = weightLine(truth.weights, POLICY).versions.get(parent.version)
    says(version?.adapter === parent.adapter && version.state === parent.state, `batch ${i + 1} stands on other bytes than version ${parent.version}`)
    if (!batch.update) continue
    const again = trained(batch.sealed, batch.sealed.items.map((item) => item.reward), batch.update.event.fingerprint.build)
    says(again.adapter === batch.update.event.adapter, `batch ${i + 1} computed again gives other bytes`)
  }
}

/** Each version follows from an update that counted, on the head of its moment, never while learning was frozen. */
const versions = (truth: Reader, says: Says): void => {
  const updates = updateLine(truth.updates, POLICY)
  const verdicts = new Map<string, number>()
  let number = 0
  for (const { logged: { event }, head, frozen } of truth.counted) {
    if (!('policy' in event) || event.policy !== POLICY) continue
    if (event.type === 'HeadMoved') says(event.from === head, `a rollback from ${event.from} counted while ${head} was the head`)
    if (event.type === 'VersionPublished' || event.type === 'VersionRejected') verdicts.set(event.update, (verdicts.get(event.update) ?? 0) + 1)
    if (event.type !== 'VersionPublished') continue
    says(event.number === (number += 1), `version ${number} calls itself ${event.number}`)
    says(event.parent === head, `version ${event.number} counted on ${event.parent} while ${head} was the head`)
    if (event.why === 'promotion') continue
    says(!frozen, `version ${event.number} was published while learning was frozen`)
    const batch = updates.batches.find((one) => one.update?.id === event.update)
    says(batch?.update?.event.adapter === event.adapter, `version ${event.number} comes from an update that does not count`)
    says(batch?.sealed.parent.version === event.parent, `version ${event.number} has another parent than its batch`)
  }
  for (const [update, count] of verdicts) says(count === 1, `update ${update.slice(0, 8)} has ${count} verdicts`)
}

