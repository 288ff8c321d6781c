/** The trainer as a separate process on Kafka. */
import type { Fingerprint } from '@instar/engine/port'
import { estimatedParameters, holdsWeights, openBase, openModel, parameterCount, startLearning } from '@instar/policy'
import { hostOf, readSettingsFile, recordSettings, resolveSection, runService, startCheckpoints } from '@instar/process'
import { auditFold, createTrainer, progressText, trainerFold, trainingSection, trainingServer } from './app.ts'

const fingerprintText = ({ engine, build, isa }: Fingerprint): string => `${engine} ${build} (${isa})`

process.exitCode = await runService(
  'trainer',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal, signal }) => {
    const parameters = holdsWeights(settings.model)
      ? parameterCount(settings.model)
      : estimatedParameters(settings.model)
    if (parameters === null)
      logLine(
        `${settings.model} holds no weights, and its config.json does not tell how large the model is: settings that are not set have the defaults of a model of 2 million parameters`,
      )
    const { config, values } = resolveSection(trainingSection, {
      file: readSettingsFile(settings.learning.source),
      environment: settings.learning.environment,
      parameters,
    })
    const server = trainingServer(config, settings.baseAdapter)
    const [model, learner] = await Promise.all([
      server ? openBase(settings.model) : openModel(settings.model),
      server ? null : startLearning({ model: settings.model, engine: settings.learnEngine, signal }),
    ])
    const engine = server ? { server } : { learner: learner! }
    const trainer = createTrainer(
      {
        log,
        snapshots,
        lossesFolder: settings.data,
        metrics,
        ...engine,
        // The publisher is another process.
        ahead: true,
        model,
        now,
        onFatal,
        onProgress: ({ phase, number, reason }) =>
          logLine(`batch ${number} ${phase}${reason === undefined ? '' : `: ${reason}`}`),
        onWait: ({ number, reason }) => logLine(`batch ${number} waits: ${reason}`),
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
    const checkpoints = startCheckpoints(
      { log, metrics, now, logLine },
      {
        folds: [trainerFold, auditFold],
        policy: config.policy,
        settings,
        who: 'trainer',
        owns: () => trainer.leads(),
      },
    )
    return {
      line: `${model.name}, ${learner ? fingerprintText(learner.fingerprint()) : config.server}`,
      health: () => ({ status: 'ready', problem: null, waits: trainer.waits() }),
      async stop() {
        await Promise.all([checkpoints.stop(), trainer.stop()])
        await learner?.close()
      },
    }
  },
)
