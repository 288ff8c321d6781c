/** The scorer as a process of its own, on Kafka. */
import { hostOf, readSettingsFile, recordSettings, resolveSection, runService } from '@instar/process'
import { createJudges, createScorer, judgeSection } from './app.ts'

process.exitCode = await runService(
  'scorer',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal, signal }) => {
    const { config, values } = resolveSection(judgeSection, {
      file: readSettingsFile(settings.learning.source),
      environment: settings.learning.environment,
      parameters: null,
    })
    await recordSettings(log, {
      policy: config.policy,
      who: 'scorer',
      values,
      judges: () => createJudges(config, { now }).map(({ id }) => id),
      now: now(),
      signal,
    })
    const scorer = createScorer({ log, snapshots, metrics, now, logLine, onFatal }, config)
    await scorer.start()
    return {
      line: config.llm === null ? 'judging by reactions' : `judging with ${config.llm.model}`,
      health: () => ({ status: 'ready', problem: null, ...scorer.work() }),
      stop: () => scorer.stop(),
    }
  },
)
