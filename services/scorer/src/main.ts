/** The scorer as a process of its own, on Kafka. */
import { hostOf, recordSettings, runService, startCheckpoints } from '@instar/process'
import { createScorerAcrossCuts } from './across-cuts.ts'
import { createJudges, judgeText, openJudge } from './app.ts'
import { ownGateway } from './shell/own-gateway.ts'
import { ownSettings } from './shell/own-settings.ts'
import { scorerFold } from './shell/stored-fold.ts'

process.exitCode = await runService(
  'scorer',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal, signal }) => {
    const { config, values } = ownSettings(settings)
    await recordSettings(log, {
      policy: config.policy,
      who: 'scorer',
      values,
      judges: () => createJudges(config, { now }).map(({ id }) => id),
      now: now(),
      signal,
    })
    const ports = { now, logLine, gateway: ownGateway(settings) }
    // Several scorers would each measure, on a gateway that may not have started: `auto` has to be set.
    const judge = await openJudge(log, { config, ports, signal, values, who: 'scorer', parameters: null })
    const scorer = createScorerAcrossCuts({ log, snapshots, metrics, onFatal, ...ports }, judge.config)
    await scorer.start()
    judge.started(scorer)
    const checkpoints = startCheckpoints(
      { log, metrics, now, logLine },
      { folds: [scorerFold], policy: config.policy, settings, who: 'scorer', owns: () => scorer.assigned(0) },
    )
    return {
      line: judgeText(judge.config),
      health: () => ({ status: 'ready', problem: null, ...scorer.work() }),
      async stop() {
        await Promise.all([checkpoints.stop(), scorer.stop()])
      },
    }
  },
)
