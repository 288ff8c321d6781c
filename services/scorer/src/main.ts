/** The scorer as a process of its own, on Kafka. */
import { hostOf, readSettingsFile, resolveSection, runService } from '@instar/process'
import { createScorer, judgeSection } from './app.ts'

process.exitCode = await runService(
  'scorer',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal }) => {
    const { config } = resolveSection(judgeSection, {
      file: readSettingsFile(settings.learning.source),
      environment: settings.learning.environment,
      parameters: null,
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
