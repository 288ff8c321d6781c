/** The publisher as a separate process on Kafka. */
import {
  estimatedParameters,
  holdsWeights,
  openBase,
  parameterCount,
  readPeftFolder,
  startLearning,
} from '@instar/policy'
import { hostOf, readSettingsFile, recordSettings, resolveSection, runService, startCheckpoints } from '@instar/process'
import { createPublisher, gateSection, publisherFold, onDemand, openGate } from './app.ts'
import { probesOf } from './shell/probes.ts'

process.exitCode = await runService(
  'publisher',
  hostOf(process.env),
  async ({ settings, log, snapshots, metrics, now, logLine, onFatal, signal }) => {
    const { config, values } = resolveSection(gateSection, {
      file: readSettingsFile(settings.learning.source),
      environment: settings.learning.environment,
      parameters: holdsWeights(settings.model) ? parameterCount(settings.model) : estimatedParameters(settings.model),
    })
    const learner = onDemand(() => startLearning({ model: settings.model, engine: 'auto', signal }))
    const [model, { evaluator, trained, close }] = await Promise.all([
      openBase(settings.model),
      openGate(settings, config, learner.get, { logLine, signal }),
    ])
    const probes = probesOf(settings.model, config, signal)
    const { baseAdapter: folder } = settings
    const baseAdapter = folder === null ? null : readPeftFolder(folder, { model: settings.model, base: model.sha256 })
    const publisher = createPublisher(
      {
        log,
        snapshots,
        metrics,
        evaluator,
        ...(trained ? { trained } : {}),
        model,
        baseAdapter,
        probes,
        now,
        onFatal,
        logLine,
        onProgress: ({ phase, version, reason }) =>
          logLine(phase === 'published' ? `version ${version} published` : `candidate rejected: ${reason}`),
      },
      config,
    )
    await recordSettings(log, {
      policy: config.policy,
      who: 'publisher',
      values,
      judges: () => [],
      now: now(),
      signal,
    })
    await publisher.start()
    const checkpoints = startCheckpoints(
      { log, metrics, now, logLine },
      {
        folds: [publisherFold],
        policy: config.policy,
        settings,
        who: 'publisher',
        owns: () => publisher.leads(),
      },
    )
    return {
      line: `${model.name}, ${probes.probes.length} probes`,
      health: () => ({ status: 'ready', problem: null, waits: publisher.waits() }),
      async stop() {
        // A measurement that waits for servers ends with `close`; the publisher, which is told first, then decides nothing.
        await Promise.all([checkpoints.stop(), publisher.stop(), close()])
        await learner.close()
      },
    }
  },
)
