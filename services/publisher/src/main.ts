/** The publisher as a separate process on Kafka. */
import { openModel, startLearning } from '@instar/policy'
import { hostOf, runService } from '@instar/process'
import { createPublisher, publisherConfig } from './app.ts'
import { probesOf } from './shell/probes.ts'

process.exitCode = await runService(
  'publisher',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, say, onFatal, signal }) => {
    const [model, learner] = await Promise.all([
      openModel(settings.model),
      startLearning({ model: settings.model, engine: 'auto', signal }),
    ])
    const probes = probesOf(settings.model)
    const publisher = createPublisher(
      {
        log,
        snapshots,
        metrics,
        learner,
        model,
        probes,
        now,
        onFatal,
        onProgress: ({ phase, version, reason }) =>
          say(phase === 'published' ? `version ${version} published` : `candidate rejected: ${reason}`),
      },
      publisherConfig.parse({}),
    )
    await publisher.start()
    return {
      line: `${model.name}, ${probes.length} content probes`,
      health: () => ({ status: 'ready', problem: null, waits: publisher.waits() }),
      async stop() {
        await publisher.stop()
        await learner.close()
      },
    }
  },
)
