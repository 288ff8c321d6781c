/** The scorer as a process of its own, on Kafka. */
import { hostOf, runService } from '@instar/process'
import { createScorer, scorerConfig } from './app.ts'

process.exitCode = await runService(
  'scorer',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, say, onFatal }) => {
    const scorer = createScorer(
      { log, snapshots, metrics, now, say, onFatal },
      scorerConfig.parse({
        idleMs: settings.sessionIdleMs,
        ...(settings.judge === null ? {} : { llm: settings.judge }),
      }),
    )
    await scorer.start()
    return {
      line: settings.judge === null ? 'judging by reactions' : `judging with ${settings.judge.model}`,
      health: () => ({ status: 'ready', problem: null, ...scorer.work() }),
      stop: () => scorer.stop(),
    }
  },
)
