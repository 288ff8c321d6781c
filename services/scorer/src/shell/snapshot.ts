/** The scorer's state in a snapshot: the folds, what is still to be scored, which sessions are watched. */
import type { SessionState, TurnState } from '@instar/events'
import {
  scoreIn,
  sessionsOf,
  storedByPolicy,
  storedScores,
  storedTurns,
  storedWeights,
  type FoldFile,
  type Snapshot,
  type StateVersion,
} from '@instar/log'
import type { AskedTable } from '../core/asked-alone.ts'
import { beginsOf } from '../core/episode-begins.ts'
import { endsOf } from '../core/episode-ends.ts'
import { needOf, type Need } from '../core/need.ts'
import type { RecordTable } from '../core/own-record.ts'
import { initialIdle } from '../core/idle.ts'
import { missingRecords } from '../core/missing-records.ts'
import { initialState, type ScorerState } from '../core/state.ts'

/**
 * Of the state that is stored. A change of its form or of its fold takes the next number, and a migration where the old
 * state has what the new one needs; test/snapshots/versions.test.ts fails without.
 */
export const STATE_VERSION: StateVersion = {
  number: 4,
  migrations: {
    // Version 1 was before `EpisodeEnded`: every episode that ended needs one.
    1(file) {
      for (const session of sessionsOf(file, { closed: true }))
        if (endsOf(session).length > 0) file.enqueue('ending', session.session)
    },
    // Version 2 was before `EpisodeBegun`: every episode that runs needs one. The end may have been read before the closing.
    2(file) {
      for (const session of sessionsOf(file, { closed: false }))
        if (beginsOf(session).some(({ policy }) => !file.has(`ends ${policy}`, session.session)))
          file.enqueue('beginning', session.session)
    },
    // Version 3 did not say that a turn was discarded which was skipped before, also where an outcome covers it.
    3(file) {
      for (const session of sessionsOf(file, { closed: true }))
        for (const turn of session.outcome === null ? [] : session.turns)
          if (turn.discardedBy !== null && needIn(file, session, turn) && !file.queued('needed', turn.turn))
            file.enqueue('needed', turn.turn)
    },
  },
}

/** `needOf` in a file. */
const needIn = (file: FoldFile, session: SessionState, turn: TurnState): Need | null => {
  const sessions = new Map([[session.session, session]])
  const score = scoreIn(file, turn.policy, turn.turn)
  const turns = new Map(score ? [[turn.turn, score]] : [])
  return needOf({ turns: { sessions, turns: session.byId }, scores: new Map([[turn.policy, { turns }]]) }, turn)
}

export const stateOfSnapshot = (snapshot: Snapshot): ScorerState => ({
  ...initialState(),
  turns: storedTurns(snapshot),
  scores: storedByPolicy((policy) => storedScores(snapshot, policy)),
  weights: storedWeights(snapshot),
  claims: snapshot.resident('claims'),
  seen: snapshot.resident('seen'),
  records: snapshot.resident<Parameters<RecordTable['set']>[1]>('records'),
  questions: snapshot.resident<Parameters<AskedTable['set']>[1]>('questions'),
  askers: snapshot.resident('askers'),
  begins: storedByPolicy((policy) => snapshot.table(`begins ${policy}`)),
  beginning: missingRecords(snapshot.queue('beginning')),
  ends: storedByPolicy((policy) => snapshot.table(`ends ${policy}`)),
  ending: missingRecords(snapshot.queue('ending')),
  needed: snapshot.queue('needed'),
  idle: { ...initialIdle(), watched: snapshot.resident<number>('idle') },
})
