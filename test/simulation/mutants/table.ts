/**
 * Plausible mistakes in the folds and in the decisions of services. Each is a short patch of one file, so that it still
 * fits when the lines around it move; the simulation must detect all of them.
 */
export type Mutant = {
  name: string
  file: string
  /** Each `from` occurs in the file once. */
  patch: readonly (readonly [from: string, to: string])[]
  /** The wrong behaviour. */
  breaks: string
}

const of = (
  file: string,
  mutants: Record<string, readonly [breaks: string, ...patch: (readonly [string, string])[]]>,
): Mutant[] => Object.entries(mutants).map(([name, [breaks, ...patch]]) => ({ name, file, patch, breaks }))

export const MUTANTS: readonly Mutant[] = [
  ...of('packages/events/src/folds/turns.ts', {
    lastContinuation: [
      'the last continuation is the next state',
      ['if (followed.next === null && !followed.closed) {', '{'],
    ],
    continuedAfterClosing: [
      'a closed turn gets a next state',
      ['followed.next === null && !followed.closed', 'followed.next === null'],
    ],
    closedThoughContinued: [
      'a closing closes a turn that has a next state',
      ['turn.next !== null || turn.closed) continue', 'turn.closed) continue'],
    ],
    closedTwice: [
      'the last closing counts, not the first',
      ['turn.next !== null || turn.closed) continue', 'turn.next !== null) continue'],
    ],
    retryContinues: [
      'a repeated request is the next state of its first answer',
      ['event.after, event.digest)', 'event.after)'],
    ],
    firstRated: [
      'feedback without a turn goes to the first',
      ['session?.turns.findLast(({ shown })', 'session?.turns.find(({ shown })'],
    ],
    feedbackTwice: [
      'the same feedback counts twice',
      ["if (session?.feedback.has(event.id)) return ignored('repeat')", ''],
    ],
    sideContinues: [
      'a side request is a next state',
      ["turn.shown && event.kind === 'main' && event.after", 'turn.shown && event.after'],
    ],
    unseenContinues: [
      'a background candidate is a next state',
      ["turn.shown && event.kind === 'main'", "event.kind === 'main'"],
    ],
    turnTwice: ['the same turn counts twice', ["if (state.turns.has(event.turn)) return ignored('repeat')", '']],
    candidatesAreAttempts: [
      'each candidate is an attempt',
      ['attemptOf(session, event.digest, event.group)', 'attemptOf(session, event.digest, event.turn)'],
    ],
    lastLink: [
      'the last parent link counts, not the first',
      ["if (session.parent !== null) return ignored('repeat')", ''],
    ],
    outcomeAgain: [
      'the last outcome of an episode counts, not the first',
      ['const ends = outcome !== null && session?.outcome === null', 'const ends = outcome !== null'],
    ],
    lastHeard: [
      "a session's last activity is the time of its last record",
      ['Math.max(session.lastAt, turn.finishedAt)', 'turn.finishedAt'],
    ],
  }),
  ...of('packages/events/src/folds/answers.ts', {
    earliestAnswer: ['of equal answers the first is continued', ['    latest.last = turn\n', '']],
    lastCandidate: [
      'of equal candidates the last is continued',
      ['(session.byGroup.get(last.group)?.find((turn) => turn.shown && isEqual(turn)) ?? last)', 'last'],
    ],
    strictOnly: [
      'a trimmed answer is not recognised',
      ['strict ?? latestOf(session.byLoose.get(key.loose), except)', 'strict'],
    ],
  }),
  ...of('packages/events/src/folds/scores.ts', {
    lastJudge: ['the last judge wins', ["if (!outranks(event.rank, before.rank)) return ignored('outranked')", '']],
    firstFeedback: [
      'the first feedback counts, not the last',
      ['if (current === null) return true', 'if (current !== null) return false\n  return true'],
    ],
    feedbackById: ['feedback is ordered by its id alone', ['rank.at > current.at ||', 'rank.id > current.id ||']],
    scoredLate: ['a revision moves a turn back in the queue', ['at: before ? before.at : event.at', 'at: event.at']],
  }),
  ...of('packages/events/src/folds/episode-ends.ts', {
    plainEndStands: [
      'the outcome of an episode that had been closed without one is not recorded',
      ['before.outcome === null || (before.closing', '(before.closing'],
    ],
    plainEndAgain: [
      'an episode that was closed without an outcome ends again',
      ['if (outcome === null) return false', ''],
    ],
  }),
  ...of('packages/events/src/folds/episode-begins.ts', {
    begunThoughEnded: [
      'the beginning of an episode counts behind its end',
      ['if (ends?.has(session)) return false', ''],
    ],
    unnamedStands: [
      'a task that is named later is not recorded',
      ["return !before || (before.task === '' && task !== '')", 'return !before'],
    ],
  }),
  ...of('packages/events/src/folds/chain.ts', {
    anyLink: [
      'a record of a chain counts whatever its predecessor',
      ["if (prev !== chain.tip) return ignored('stale')", ''],
    ],
  }),
  ...of('packages/events/src/folds/updates.ts', {
    itemsNotSpent: [
      'a turn may be trained on twice',
      ['for (const item of event.items) line.spent.add(item.turn)', ''],
    ],
    dropsNotSpent: [
      'a dropped turn may be batched',
      ['for (const drop of event.dropped) line.spent.add(drop.turn)', ''],
    ],
    baselinesForgotten: [
      'baselines are reset with each batch',
      ['for (const b of event.baselines) line.baselines', 'for (const b of event.baselines.slice(9)) line.baselines'],
    ],
    failedIsOpen: ['a failed batch is computed again', ["batch.status = 'failed'", "batch.status = 'sealed'"]],
    failedUnspent: [
      'the turns of a failed batch may be batched again',
      [
        "batch.status = 'failed'",
        "batch.status = 'failed'\n    for (const item of batch.sealed.items) line.spent.delete(item.turn)",
      ],
    ],
  }),
  ...of('packages/events/src/folds/weights.ts', {
    headStays: [
      'an accepted version is not served',
      ["moveHead(line, event.number, { why: event.why, who: 'publisher', at: event.at, record: id })", ''],
    ],
    rollbackGoesOn: ['a rollback does not freeze', ['if (event.freeze) line.frozen = true', '']],
    neverThawed: ['a thaw has no effect', ['line.frozen = event.on', 'line.frozen = true']],
    numberAgain: ['a version number is reused after a rollback', ['=> line.last + 1', '=> line.head + 1']],
    numbersApart: [
      'staleness is a difference of numbers',
      ['if (at === version) return distance', 'return head - version'],
    ],
    bestForgotten: ['the best content is that of the base', ['updateBestContent(line, event.figures.content)', '']],
    commandForgotten: [
      'a command may count twice',
      ['line.requests.add(event.request)\n      if (event.freeze)', 'if (event.freeze)'],
    ],
    rejectionForgotten: [
      'a rejected update has no verdict',
      ['addVerdict(line, event.update, { accepted: false, reason: event.reason })', ''],
    ],
  }),
  ...of('services/scorer/src/core/need.ts', {
    judgeOutranks: ["feedback after a judge's score is ignored", ['outranks(rankOf(feedback), score.rank)', 'false']],
    firstOpinion: [
      'of two ratings the earlier counts',
      ['outranks(rankOf(one), rankOf(latest)) ? one : latest', 'outranks(rankOf(one), rankOf(latest)) ? latest : one'],
    ],
    untrainableScored: [
      'a turn that may not be trained on is judged',
      ["&& status === 'complete' && trainable", "&& status === 'complete'"],
    ],
    abortedScored: [
      'an aborted answer is judged',
      ["status === 'complete' && trainable", "(status !== 'complete' || trainable)"],
    ],
    discardedJudged: [
      'turns of an aborted episode are judged',
      ['if (turn.discardedBy !== null) {', "if (turn.discardedBy === '') {"],
    ],
    abortedKeepsScore: [
      'a turn that was scored before its episode was aborted keeps its score',
      ['score ? isUntold(turn, score)', 'score ? false'],
    ],
    abortedKeepsSkip: [
      'scores do not say that an episode was aborted whose turn was skipped before, and which an outcome covers',
      ["reason !== 'discarded' && turn.outcomeBy !== null", "reason === '' && turn.outcomeBy !== null"],
    ],
    unseenAlone: [
      'a background candidate waits for a next state of its own',
      ['const seen = shownOf(state.turns.sessions.get(turn.session), turn)', 'const seen = turn'],
    ],
    closedUnscored: [
      'a turn that was closed is not scored',
      ['if (closedBy !== null) return', 'if (closedBy === undefined) return'],
    ],
  }),
  ...of('services/scorer/src/core/decide.ts', {
    closedAtOnce: [
      'sessions are closed at once',
      ['at + rules.idleMs <= now', 'at <= now'],
      ['held.lastAt + rules.idleMs > now', 'held.lastAt > now'],
    ],
    closedThoughHeard: [
      'a session that was active meanwhile is closed',
      ['held.lastAt + rules.idleMs > now', 'held.lastAt > now'],
    ],
    everybodyCloses: [
      "sessions of other scorers' partitions are closed",
      ['!assigned(held.turns[0]?.partition ?? -1)', 'held.turns.length === 0'],
    ],
    everybodyScores: ["turns of other scorers' partitions are scored", ['if (!assigned(turn.partition)) continue', '']],
    askedTwice: [
      'a turn that is being judged is judged again',
      ["if (work?.step === 'appended' || work?.cause === need.cause) continue", ''],
    ],
    oldAnswer: [
      'an outdated judgement is kept',
      ['if (needOf(state, turn)?.cause === request.cause) return turn', 'if (turn.trainable) return turn'],
    ],
    judgedAlone: [
      'judges are asked about a turn without a next state',
      ['&& rules.judgesNeedNextState) {', '&& false) {'],
    ],
    neverJudgedAlone: ['judges that need no next state are not asked', ['&& rules.judgesNeedNextState) {', ') {']],
    staleJudged: [
      'judges are asked about stale turns',
      ['return distance === null || distance > staleness', 'return distance === null'],
    ],
    hintLost: ["feedback drops the judge's hint", ['reward < 0 && before?.hint ?', 'reward < -1 && before?.hint ?']],
    handedOver: ['unfinished work of a received partition is ignored', ['state.sweep = true\n  unpark', 'unpark']],
  }),
  ...of('services/scorer/src/core/waiting.ts', {
    surplusJudged: [
      'judges are asked though enough scored turns wait for a batch',
      ['if (!isTrained) return true', 'return true'],
    ],
    takenCounts: [
      'a turn that a batch has taken counts as waiting',
      ['      this.remove(policy, turn)\n      taken.add(turn)', '      taken.add(`${turn}.`)'],
    ],
    staleCounts: [
      'stale turns count as waiting',
      ['flatMap(([version, counts]) => (usable(version) ? [counts] : []))', 'map(([, counts]) => counts)'],
    ],
    candidateHeld: [
      'of the candidates of a request some are judged',
      ['if (beside.some((one) => one.outcomeBy !== null || state.waiting.has(policy, one.turn))) return true', ''],
    ],
  }),
  ...of('services/scorer/src/core/state.ts', {
    raceLost: [
      'feedback is dropped after a lost race',
      ['touch(state, event.turn)\n  return outcome', 'return outcome'],
    ],
    endedAfterAbort: [
      'an outcome that comes after an abort covers turns of which scores do not say that they were aborted',
      ['(ends && discardedBy !== null)', '(ends && discardedBy === null)'],
    ],
    neverWatched: [
      'idle sessions are not closed',
      ['watch(state.idle, event.session, state.turns.sessions.get(event.session)?.lastAt ?? 0)', ''],
    ],
  }),
  ...of('services/scorer/src/core/episode-ends.ts', {
    endUnsaid: [
      'an episode that was closed without an outcome has no end',
      ['if (!closed || !first', 'if (outcome === null || !first'],
    ],
    unjudgedCovered: [
      'an outcome covers turns that are not scored',
      ['turn.outcomeBy === closing && isJudged(turn)', 'turn.outcomeBy === closing'],
    ],
    endBeforeAbort: [
      'an aborted episode ends before scores say of its turns that it was aborted',
      ['isAbortUntold(state, session) ? [] : missingOf(state, session)', 'missingOf(state, session)'],
    ],
  }),
  ...of('services/scorer/src/core/episode-begins.ts', {
    begunUnsaid: [
      'an episode that runs has no beginning',
      ['const isNew = isWaiting(turn) && !isKnown(state, turn)', 'const isNew = false'],
    ],
    namedUnsaid: [
      'nobody notices that a task is named later',
      ['else if (isNew || isFirstNamed(session, turn))', 'else if (isNew)'],
    ],
    unusableBegins: [
      'an episode begins with a turn that no batch can use',
      ['turn.task !== null && whyUnusable(turn) === null', 'turn.task !== null'],
    ],
    closedBegins: [
      'an episode begins though its session is closed',
      ['if (closed || !first) return []', 'if (!first) return []'],
      ['setMissing(state.beginning, event.session, false)', 'look(state, session)'],
    ],
  }),
  ...of('services/scorer/src/core/missing-records.ts', {
    appendedAgain: [
      'a record of an episode is appended again before it is read back',
      ['if (missing.appended.has(nameOf(said))) continue', ''],
    ],
    everybodyRecords: [
      "episodes of other scorers' partitions are recorded",
      ['if (!session || !assigned(session.turns[0]?.partition ?? -1)) continue', 'if (!session) continue'],
    ],
    episodesNotHandedOver: [
      'who is given a partition does not look at the records of episodes that are missing there',
      ['for (const session of sessions) toLookAt.add(session)', ''],
    ],
  }),
  ...of('packages/process/src/own-partitions.ts', {
    workedUnread: [
      'a scorer works on a partition before it has caught up',
      ['held.get(partition)?.caughtUp === true', 'held.has(partition)'],
    ],
    caughtUpThough: [
      'a partition that was taken away and given again counts as caught up when its first catching up ends',
      ['if (stopped || held.get(partition) !== taken) return', 'if (stopped) return'],
      ['taken.caughtUp = true', 'held.set(partition, { caughtUp: true })'],
    ],
    neverReleased: ['a partition that comes back is not read again', ['held.delete(partition)', '']],
  }),
  ...of('services/trainer/src/core/decide.ts', {
    sealsFrozen: [
      'a batch is sealed while learning is frozen',
      ["if (weights.frozen) return { do: 'wait', why: 'frozen' }", ''],
    ],
    sealsEarly: [
      'a batch is sealed before the verdict on the one before',
      ["return { do: 'wait', why: 'verdict' }", '{ /* goes on */ }'],
    ],
    signalIgnored: [
      'a batch without signal is computed',
      ['if (!hasSignal(last.sealed)) return', 'if (!hasSignal(last.sealed) && now < 0) return'],
    ],
    ownResult: [
      'a result is appended to a settled batch',
      ["last?.id === batch && last.status === 'sealed'", 'last?.id === batch'],
    ],
    everybodyTrains: ['a standby trainer seals', ["if (!assigned) return { do: 'wait', why: 'standby' }", '']],
  }),
  ...of('services/trainer/src/core/ahead.ts', {
    aheadAnyhow: [
      'a batch chosen ahead is sealed whatever has become of its candidate and its turns',
      ['again && isSameBatch(again, sealed) ? again : null', 'again'],
      ['if (ground?.parent.version !== sealed.parent.version) return null', 'if (!ground) return null'],
    ],
    aheadByTurns: [
      'the update of a batch chosen ahead is kept although a reward has changed',
      ["encodeEvent({ ...sealed, prev: '', dropped: [], at: 0 }).id", 'sealed.items.map(({ turn }) => turn).join()'],
    ],
    aheadOnBase: [
      'a batch chosen ahead is computed on the head, not on the candidate',
      ['parent: { version, adapter: event.adapter, state: event.state }', 'parent: { ...last.sealed.parent, version }'],
      [
        'const inputsOf = (sealed: BatchSealed): string => encodeEvent({ ...sealed,',
        'const inputsOf = (sealed: BatchSealed): string => encodeEvent({ ...sealed, parent: { version: 0, adapter: null, state: null },',
      ],
    ],
  }),
  ...of('services/trainer/src/core/batch.ts', {
    staleTaken: ['staleness is ignored', ['versions.length <= staleness', 'versions.length <= 99']],
    strangersTaken: [
      "a version's parent is its number minus one",
      [
        'const parent: number | null = line.versions.get(at)?.parent ?? null',
        'const parent: number | null = at === 0 ? null : at - 1',
      ],
    ],
    oldestFirst: ['turns of the oldest version go first', ['versions.push(at)', 'versions.unshift(at)']],
    nothingDropped: ['unusable turns are not dropped', ['dropped: drop(state, weights, versions)', 'dropped: []']],
    droppedAsStale: [
      'a rolled-back turn is dropped as stale',
      ["onLineage(version) ? 'stale' : 'not_on_lineage'", "'stale'"],
    ],
    parentIsBase: [
      'every batch has the base as parent',
      ['const head = weights.versions.get(weights.head)', 'const head = weights.versions.get(0)'],
    ],
  }),
  ...of('services/trainer/src/core/choice.ts', {
    batchOverfull: [
      'a batch takes every pending turn',
      ['while (queues.length > 0 && chosen < options.batchSize)', 'while (queues.length > 0)'],
      [
        'queues.filter((queue) => chosen < options.batchSize && takeNext(queue))',
        'queues.filter((queue) => takeNext(queue))',
      ],
    ],
    batchNeverGrows: [
      'a batch has its smallest size, whatever is pending',
      ['Math.max(options.batchSize, options.batchMax)', 'options.batchSize'],
    ],
    earliestFirst: ['of one version the earliest turns go first', ['yield* last.reverse()', 'yield* last']],
    newestLast: ['items are recorded newest first', ['requests.reverse().flat()', 'requests.flat()']],
    subjectUnbounded: [
      "a subject's share is not limited",
      ['count === 0 || count + request.length <= subjectLimit', 'count >= 0'],
    ],
    candidatesApart: [
      'candidates of one request go into two batches',
      ['if (!turn || turn.candidates === 1) return [id]', 'if (turn) return [id]'],
    ],
    groupNotAwaited: [
      'a request is trained on before its last candidate came',
      ['scoredAt.length < turn.candidates && now <', 'scoredAt.length < 0 && now <'],
    ],
  }),
  ...of('packages/events/src/folds/scored-facts.ts', {
    untrainableTaken: ['an untrainable turn is batched', [': !trainable ? (reason', ': trainable === null ? (reason']],
    abortedTaken: [
      'an aborted answer is batched',
      ["status !== 'complete' ? (reason ?? status).slice(0, 100)", "status === null ? ''"],
      [': !trainable ? (reason', ": !trainable && status === 'complete' ? (reason"],
    ],
    abortedEpisodeTaken: ['an aborted episode is trained on', ['discardedBy !== null', "discardedBy === ''"]],
    anotherBeginning: [
      "a score states its turn's time as the session's beginning",
      ['session?.turns[0]?.at ?? at', 'at'],
    ],
  }),
  ...of('services/trainer/src/core/pending.ts', {
    outcomeNotAwaited: [
      'turns of an episode do not wait for its outcome',
      ['(shown && task !== null && turns.sessions.get(session)?.closed === false)', 'false'],
    ],
    spentAgain: [
      'a rating makes a trained turn pending again',
      ['if (updateLine(state.updates, state.policy).spent.has(turn)) return', ''],
    ],
    takenWaits: [
      'a batched turn stays pending',
      ['if (!remove(state, queueOf(state, id), id)) remove(state, UNREAD, id)', ''],
    ],
  }),
  ...of('services/trainer/src/core/episodes.ts', {
    groupEarly: [
      'a group goes when its first episode has ended',
      ['if (now >= endedAt + taskWaitMs) from', 'if (now >= endedAt) from'],
    ],
  }),
  ...of('services/trainer/src/core/task-groups.ts', {
    firstEnded: [
      'a group is the episodes that ended first',
      ['a.begunAt - b.begunAt', '(a.outcome?.at ?? 1e15) - (b.outcome?.at ?? 1e15)'],
    ],
    groupUnscored: [
      'a group goes before its turns are scored',
      ['over.length === size && over.every(({ isScored }) => isScored)', 'over.length === size'],
    ],
  }),
  ...of('services/trainer/src/core/episode-index.ts', {
    changeUnseen: ['a score of an episode is not looked at', ['this.#touched?.add(session)', '']],
  }),
  ...of('services/trainer/src/core/state.ts', {
    droppedWaits: ['a dropped turn stays pending', ['[...event.items, ...event.dropped]', '[...event.items]']],
    lateTurnLost: [
      'a turn that is read after its score is never batched',
      ["if ('answer' in event) turnRead(state, event.turn)", ''],
    ],
  }),
  ...of('services/trainer/src/core/told.ts', {
    notAwaited: [
      'of an episode known from scores alone a turn without a score is not awaited',
      ['covered.filter((turn) => !state.scores.turns.has(turn))', '[] as string[]'],
    ],
    awaitedForever: [
      'a score does not end the waiting for it',
      ['if (told?.awaited.includes(event.turn)) {', 'if (told?.awaited.includes(event.session)) {'],
    ],
    discardUnread: [
      'a skip does not say that its turn is discarded',
      ["of?.unusable === 'discarded' && known?.discardedBy === null", "of?.unusable === '' && known"],
    ],
    endCoversNothing: [
      'the end of an episode does not cover the turns that it lists',
      ['if (known) change(state, known, { outcomeBy: closing })', 'if (known) change(state, known, {})'],
    ],
    coveredLate: [
      'the end of an episode does not cover a turn that is scored later',
      ['told?.awaited.includes(turn) ? (session.outcome?.record ?? null) : null', 'null'],
    ],
    beginningUnread: [
      'the beginning of an episode on scores is ignored',
      ['if (state.turns.sessions.get(id)?.closed === true) return', 'if (id.length >= 0) return'],
    ],
    leftEarly: [
      'a trainer leaves turns before it has read what scores refer to',
      ['!hasUnread(state) && state.ahead.isEmpty', 'true'],
    ],
    toldForever: ['an episode that is over and trained on keeps its place in its group', ['told.delete(id)', 'void 0']],
  }),
  ...of('services/trainer/src/core/baseline.ts', {
    everyoneForgotten: [
      "a new subject's baseline ignores all others",
      ['(SHRINK * wider.value + sum)', '(0 * wider.value + sum)'],
    ],
    groupNotCompared: [
      'candidates are compared with their user, not with each other',
      ['group.length > 1 ?', 'group.length > 99 ?'],
    ],
    outcomePerTurn: [
      'an outcome counts once for each turn of its episode',
      [
        '[...Map.groupBy(items, ({ episode }) => episode?.session ?? null)].flatMap(([, [first]])',
        '[...items.map((item) => [null, [item]])].flatMap(([, [first]])',
      ],
    ],
    ownScoreLost: [
      "an outcome replaces a turn's own score",
      ['outcome + turnScoreWeight * (turnScore ?? 0)', 'outcome'],
    ],
    baselineStays: ['a baseline is not updated', ['DECAY * value + (1 - DECAY) * one.value', 'value']],
  }),
  ...of('services/publisher/src/core/decide.ts', {
    parentIgnored: [
      'an update of another parent is measured',
      ['if (parent !== line.head) return', 'if (parent < 0) return'],
    ],
    publishesFrozen: [
      'a version is published while learning is frozen',
      ["if (line.frozen) return { do: 'wait', why: 'frozen' }", ''],
    ],
    otherFigures: [
      'figures of another update are used',
      ['measured.update !== update || measured.head !== line.head)', 'measured.head !== line.head)'],
    ],
    promotedUnfinished: [
      'a branch is promoted before it is finished',
      ['updates.failed + weights.verdictCount <', 'updates.failed + weights.verdictCount < 0 *'],
    ],
    promotedFirst: [
      "a branch's first version is promoted",
      ['weights.versions.get(weights.last)', 'weights.versions.get(1)'],
    ],
    everybodyPublishes: [
      'a standby publisher gives verdicts',
      ["if (!assigned) return { do: 'wait', why: 'standby' }", ''],
    ],
  }),
  ...of('services/publisher/src/core/gate.ts', {
    klUnbounded: [
      'a candidate far from its parent passes',
      ['above(figures.kl_parent, limits.klParent)', 'above(figures.kl_parent, 99 * limits.klParent)'],
    ],
    contentUnbounded: [
      'a candidate with a lower content score passes',
      ['content < best - contentDrop', 'content < 0'],
    ],
    positiveUnbounded: [
      'a candidate that forgets praised answers passes',
      ['minus(figures.positive_logprob_parent, limits.positiveDrop)', 'minus(figures.positive_logprob_parent, 99)'],
    ],
  }),
  ...of('services/publisher/src/core/state.ts', {
    verdictUnread: [
      'a verdict is given twice',
      ['=== event.update) state.unsettled.delete(batch)', '=== event.policy) state.unsettled.delete(batch)'],
    ],
    trainedStaysHeldOut: ['a turn that was trained on counts as held out', ['      state.positive.delete(turn)\n', '']],
    unusableIsGood: [
      'a praised turn that may not be trained on is held out',
      ['(of?.unusable ?? null) === null', 'true'],
    ],
    placeForgotten: ['a score does not say where its turn is', ['state.places.set(', 'void (']],
    skipStaysGood: ['a turn with negative feedback counts as praised', ['else state.positive.delete(event.turn)', '']],
  }),
  ...of('services/gateway/src/session/core/resolve.ts', {
    logNotAwaited: [
      "a request does not wait for the log's end",
      ['if (!last) return true', 'if (!last || asked.key === null) return true'],
    ],
    cutForgotten: [
      'an interrupted request begins another session',
      ['return interrupted?.session ?? null', 'return null'],
    ],
    strangerCut: [
      "an interrupted request is joined to a later client's session",
      ["digest === asked.digest && status === 'aborted' && !closed", 'digest.length > 0 && !closed'],
    ],
  }),
  ...of('services/gateway/src/session/core/overlap.ts', {
    anyAnswer: ['any turn with an equal answer is continued', ['shared: said.intersection(here).size', 'shared: 1']],
  }),
  ...of('services/gateway/src/session/name-table.ts', {
    namesNotKept: ['names on the disk are not read', ['if (at < oldest) return', 'if (at >= 0) return']],
    namesNotWaiting: [
      'names that are not written yet are not found',
      ['for (const waiting of [this.#writing, this.#pending])', 'for (const waiting of [this.#writing])'],
    ],
  }),
  ...of('services/gateway/src/session/core/session-index.ts', {
    strictFirst: [
      'an answer that a client trims is not found',
      [
        'turnsNamed(index.byLoose, nameFor(key, answer.loose))',
        'turnsNamed(index.byLoose, nameFor(key, answer.strict))',
      ],
    ],
    forgottenGoesOn: ['a forgotten session begins again', ['if (index.forgotten.has(logged.key)) return COUNTED', '']],
    forgottenIsGone: ['a forgotten session is treated as unknown', ['index.forgotten.set(session, recent.place)', '']],
  }),
  ...of('services/gateway/src/session/core/stored-turns.ts', {
    unseenFound: [
      'a background candidate is found by its answer',
      ["said: event.type !== 'TurnSampled' && ", 'said: '],
    ],
  }),
  ...of('packages/log/src/snapshots/session-table.ts', {
    oldRowLost: [
      'a snapshot does not write a changed turn of an older row',
      ['Math.floor(turn.place / this.#rowTurns)', 'Math.floor((session.turns.length - 1) / this.#rowTurns)'],
    ],
  }),
  ...of('services/gateway/src/admin/core/admin.ts', {
    commandAgain: ['a command is executed twice', ["if (line.requests.has(request)) return { do: 'done' }", '']],
    rollbackThaws: [
      'a rollback that should freeze does not',
      ['to: command.to, freeze: command.freeze', 'to: command.to, freeze: false'],
    ],
    rollbackAnywhere: [
      'a rollback to an unknown version is accepted',
      ['if (!line.versions.has(command.to)) throw', 'if (command.to < 0) throw'],
    ],
    rollbackUnfrozen: [
      'a rollback to the head does not freeze',
      ['(line.frozen || !command.freeze)', '(line.frozen || command.freeze || !command.freeze)'],
    ],
    freezeNothing: [
      'a second freeze reports that it was done',
      ['line.frozen === command.on ?', 'line.frozen === command.on || command.on ?'],
    ],
  }),
]
