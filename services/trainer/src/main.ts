/** The trainer as a separate process on Kafka. */
import { openModel, parameterCount, startLearning } from '@instar/policy'
import { hostOf, readSettingsFile, recordSettings, resolveSection, runService } from '@instar/process'
import { createTrainer, progressText, trainingSection } from './app.ts'

process.exitCode = await runService(
  'trainer',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal, signal }) => {
    const { config, values } = resolveSection(trainingSection, {
      file: readSettingsFile(settings.learning.source),
      environment: settings.learning.environment,
      parameters: parameterCount(settings.model),
    })
    const [model, learner] = await Promise.all([
      openModel(settings.model),
      startLearning({ model: settings.model, engine: settings.learnEngine, signal }),
    ])
    const trainer = createTrainer(
      {
        log,
        snapshots,
        metrics,
        learner,
        model,
        now,
        onFatal,
        onProgress: ({ phase, number, reason }) =>
          logLine(`batch ${number} ${phase}${reason === undefined ? '' : `: ${reason}`}`),
        onUpdate: (progress) => logLine(progressText(progress)),
      },
      config,
    )
    await recordSettings(log, {
      policy: config.policy,
      who: 'trainer',
      values,
      judges: () => [],
      now: now(),
      signal,
    })
    await trainer.start()
    const { engine, build, isa } = learner.fingerprint()
    return {
      line: `${model.name}, ${engine} ${build} (${isa})`,
      health: () => ({ status: 'ready', problem: null, waits: trainer.waits() }),
      async stop() {
        await trainer.stop()
        await learner.close()
      },
    }
  },
)
