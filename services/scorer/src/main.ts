/** The scorer as a process of its own, on Kafka. */
import { adminToken } from '@instar/process/admin-token'
import { hostOf, readSettingsFile, recordSettings, resolveSection, runService } from '@instar/process'
import { createJudges, createScorer, judgeSection, judgeText } from './app.ts'

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
    // The gateway may not have started: who comes first makes the token.
    const gateway = async () => ({
      url: settings.gatewayUrl,
      key: settings.adminToken ?? adminToken(settings.adminTokenFile),
    })
    const scorer = createScorer({ log, snapshots, metrics, now, logLine, onFatal, gateway }, config)
    await scorer.start()
    return {
      line: judgeText(config),
      health: () => ({ status: 'ready', problem: null, ...scorer.work() }),
      stop: () => scorer.stop(),
    }
  },
)
