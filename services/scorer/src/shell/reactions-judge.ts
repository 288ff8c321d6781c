/** The judge `reactions`: reads a reward from what the user or a tool said next, with the weights of reactions/. */
import { judgeReaction, reactionsId, type ReactionSettings } from '../core/reactions/judge.ts'
import type { Judge } from './judges.ts'
import { reactionModel } from './weights.ts'

/** The weights are read when the judge is made. */
export const reactionsJudge = (settings: ReactionSettings): Judge => {
  const model = reactionModel()
  return {
    id: reactionsId(model, settings),
    needsNextState: true,
    quick: true,
    // The first judgement compiles patterns.
    prepare: () => {
      judgeReaction(
        model,
        { request: 'a', answer: 'b', calls: false, next: { user: 'It is 1.', tools: 'ok' } },
        settings,
      )
    },
    judge: (evidence) => judgeReaction(model, evidence, settings),
  }
}
