/** What learning does, or why it does nothing, in one line: for `versions` and `doctor`. */
import { progressOf, progressText } from '@instar/trainer'
import type { Asking } from './line-start.ts'

type LearningFacts = {
  started: boolean
  /** Of a line that has not started: null where no gateway runs, 'elsewhere' where the publisher is another process. */
  asking?: Asking | 'elsewhere' | null
  frozen: boolean
  /** The last batch; null before the first. `verdict`: the gate has decided on its update. */
  batch: {
    number: number
    status: 'sealed' | 'computed' | 'failed'
    reason: string | null
    verdict: boolean
    at: number
    turns: number
  } | null
  /** Why the sealed batch is not computed; null: it is, or that is not known. */
  batchWaits: string | null
  /** Milliseconds per turn of earlier updates of this line, any order. */
  turnMs: readonly number[]
  /** Scored turns that are in no batch. */
  pending: number
  /** Turns of the same versions without a score, by reason. */
  skipped?: ReadonlyMap<string, number>
  batchSize: number
  /** Updates that the gate has rejected in a row. */
  rejectionsInARow: number
}

/** `now`: ms since the epoch. The share of an update is that of the median time of earlier ones. */
export const learningText = (facts: LearningFacts, now: number): string => {
  const { batch, batchWaits, turnMs, pending, batchSize, rejectionsInARow } = facts
  if (!facts.started) return startText(facts.asking ?? null)
  const rejected =
    rejectionsInARow === 0
      ? ''
      : `; the last ${rejectionsInARow === 1 ? 'update was' : `${rejectionsInARow} updates were`} rejected`
  if (batch?.status === 'sealed') {
    if (batchWaits !== null) return `update ${batch.number} waits: ${batchWaits}${rejected}`
    const elapsed = Math.max(0, now - batch.at)
    const usual = (turnMs.toSorted((a, b) => a - b)[Math.floor(turnMs.length / 2)] ?? 0) * batch.turns
    const text =
      usual > elapsed
        ? progressText(progressOf(batch.number, elapsed / usual, elapsed))
        : `update ${batch.number}: computing for ${Math.round(elapsed / 1000)} s${usual > 0 ? ', longer than usual, or waiting: the trainer’s log says why' : ''}`
    return text + rejected
  }
  if (batch?.status === 'computed' && !batch.verdict)
    return `update ${batch.number}: waits for the verdict of the gate${rejected}`
  if (facts.frozen) return `nothing is learned: learning is frozen (\`instar thaw\` resumes it)${rejected}`
  const failed =
    batch?.status === 'failed' && batch.reason !== 'no_signal'
      ? `; update ${batch.number} failed: ${batch.reason ?? ''}`
      : ''
  return pending < batchSize
    ? `waits for scored turns: ${pending} of ${batchSize}${skippedText(facts.skipped)}${rejected}${failed}`
    : `${pending} scored turns wait for other candidates, episodes or API keys${rejected}${failed}`
}

const startText = (asking: Asking | 'elsewhere' | null): string =>
  asking === null
    ? 'nothing is learned: the line has not started (`instar up` starts it)'
    : asking === 'elsewhere'
      ? 'nothing is learned yet: the line starts once the base has answered the probes of the gate (the publisher’s output says how far it is)'
      : `nothing is learned yet: the base answers the probes of the gate, ${asking.asked} of at most ${asking.of}, ${asking.kept} kept`

const skippedText = (skipped: ReadonlyMap<string, number> = new Map()): string => {
  const reasons = [...skipped].toSorted(([, a], [, b]) => b - a)
  const all = reasons.reduce((sum, [, count]) => sum + count, 0)
  const listed = reasons.map(([reason, count]) => `${reason.replaceAll('_', ' ')} ${count}`).join(', ')
  return all === 0 ? '' : `; ${all} without a score: ${listed}`
}
