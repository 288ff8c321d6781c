/**
 * The judges by name. An entry returns the judges for its name in the order in which they are asked: the judge itself
 * and, for a model, the judge that replaces it while it fails (fallback.ts). It returns none if the judge is not
 * configured.
 *
 * A new judge: a `Judge` (judges.ts) in a file of this folder, like llm-judge.ts or reactions-judge.ts, an entry here,
 * its name and settings in services/scorer/src/config.ts.
 */
import { InstarError } from '@instar/events'
import type { JudgeName, ScorerConfig } from '../config.ts'
import { withFallback } from './fallback.ts'
import type { Judge } from './judges.ts'
import { createLlmJudge } from './llm-judge.ts'
import { reactionsJudge } from './reactions-judge.ts'
import { createSelfJudge, type GatewayAddress } from './self-judge.ts'

export type JudgePorts = {
  fetch?: typeof fetch | undefined
  now: () => number
  logLine?: ((text: string) => void) | undefined
  /** Where the base weights judge; absent: nowhere, and the judge `self` fails. */
  gateway?: (() => Promise<GatewayAddress>) | undefined
}

const noGateway = (): Promise<never> =>
  Promise.reject(new InstarError('not_running', 'There is no gateway through which the base weights could judge.'))

export const JUDGES: Readonly<Record<JudgeName, (config: ScorerConfig, ports: JudgePorts) => Judge[]>> = {
  llm: ({ llm, reactions }, { now, logLine, ...ports }) =>
    llm === null
      ? []
      : withFallback(
          (failed) => ({
            needsNextState: false,
            ...createLlmJudge(llm, { fetch: ports.fetch ?? fetch, now, logLine, failed }),
          }),
          reactionsJudge(reactions),
          llm,
          { now, logLine },
        ),
  self: ({ self, reactions, policy }, { now, logLine, gateway = noGateway, ...ports }) =>
    withFallback(
      (failed) => ({
        needsNextState: false,
        ...createSelfJudge(self, policy, { fetch: ports.fetch ?? fetch, gateway, now, logLine, failed }),
      }),
      reactionsJudge(reactions),
      self,
      { now, logLine },
    ),
  // Until it is chosen.
  auto: ({ reactions }) => [reactionsJudge(reactions)],
  reactions: ({ reactions }) => [reactionsJudge(reactions)],
}
