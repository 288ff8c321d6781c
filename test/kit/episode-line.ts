/** A trainer's line with episodes. */
import { answerKey, written } from '@instar/events'
import { Line } from './trainer-line.ts'

/** The id of the session of an episode with this name. Of `key:name` it begins with the key, as sessions of a key do. */
export const sessionOf = (name: string): string => {
  const [own = '', key = null] = name.split(':').toReversed()
  return `${key === null ? '' : `${key}_`}${Buffer.from(own).toString('hex').padEnd(64, '0')}`
}

/** A line with turns of episodes. */
export class EpisodeLine extends Line {
  /** Turns of an episode, scored by its judge; null: skipped. `at` of the first turn is when the episode began. */
  turns(
    name: string,
    scores: readonly (number | null)[],
    { task = 't' as string | null, at = 1, key = null as string | null, version = 0 } = {},
  ): string[] {
    const session = sessionOf(name)
    return scores.map((reward, i) => {
      const turn = `${session}.${String(i).padStart(32, '0')}`
      this.read({
        type: 'TurnCaptured',
        finish: 'stop',
        turn,
        session,
        policy: 'policy',
        version,
        adapter: null,
        group: turn,
        candidate: 0,
        candidates: 1,
        dialect: 'chat',
        kind: 'main',
        labelSource: 'header',
        userTurn: null,
        subject: session,
        key,
        digest: turn,
        body: { from: null, prefix: 0, suffix: 0, written: written('{}'), blob: null, length: 2, sha256: '' },
        after: i === 0 ? null : answerKey(`${name}${i - 1}`, []),
        stateFrom: 0,
        prompt: { from: null, prefix: 0, ids: [1], length: 1 },
        sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 5, stop: [] },
        tokens: 'exact',
        ids: [2],
        logprobs: [-0.5],
        text: written('x'),
        toolCallIds: [],
        answer: answerKey(`${name}${i}`, []),
        trainable: true,
        reason: null,
        offPrefix: false,
        task,
        engine: 'e',
        at: at + i,
        firstTokenAt: at + i,
        finishedAt: at + i,
      })
      const facts = {
        turn,
        session,
        policy: 'policy',
        version,
        subject: session,
        verdicts: [],
        cause: 'c',
        rank: null,
        at: 2,
      }
      const hint = reward !== null && reward < 0 ? written('Be brief.') : null
      this.read(
        reward === null
          ? { type: 'TurnSkipped', reason: 'abstained', ...facts }
          : { type: 'TurnScored', reward, judge: 'j', hint, hintJudge: hint && 'j', ...facts },
      )
      return turn
    })
  }
  end(name: string, outcome: number | null, at = 5, more: { discarded?: boolean; task?: string } = {}): string {
    const session = sessionOf(name)
    const open = [...(this.state.turns.sessions.get(session)?.turns ?? [])].slice(-1).map(({ turn }) => turn)
    return this.read({ type: 'SessionClosed', session, open, why: 'client', at, outcome, ...more })
  }
}
