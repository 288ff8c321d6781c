/**
 * The judges by name. An entry makes its judge, with one that steps in for it; none where its configuration is missing.
 * A new one: a `Judge` (judges.ts) in a file like llm-judge.ts or reactions-judge.ts, an entry here, its name and
 * settings in ../config.ts.
 */
import type { JudgeName, ScorerConfig } from '../config.ts'
import { withFallback } from './fallback.ts'
import type { Judge } from './judges.ts'
import { createLlmJudge } from './llm-judge.ts'
import { reactionsJudge } from './reactions-judge.ts'

export type JudgePorts = {
  fetch?: typeof fetch | undefined
  now: () => number
  logLine?: ((text: string) => void) | undefined
}

export const JUDGES: Readonly<Record<JudgeName, (config: ScorerConfig, ports: JudgePorts) => Judge[]>> = {
  llm: ({ llm, reactions }, { now, logLine, ...ports }) =>
    llm === null
      ? []
      : withFallback(
          (failed) => ({
            alone: true,
            ...createLlmJudge(llm, { fetch: ports.fetch ?? fetch, now, logLine, failed }),
          }),
          reactionsJudge(reactions),
          { failures: llm.failures, agreement: llm.agreement, retryMs: llm.retryMs },
          { now, logLine },
        ),
  reactions: ({ reactions }) => [reactionsJudge(reactions)],
}
