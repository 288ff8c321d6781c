/**
 * The checks of `instar doctor` for one machine; those of Node, data folder, model, engine and judge also for Kafka.
 */
import { InstarError, requireBase } from '@instar/events'
import { makeTemporaryFolder } from '@instar/events/temporary-folder'
import { givesIds, isRemote, openRemote } from '@instar/gateway/open-remote'
import { holdsWeights, openBase, openModel, startServing } from '@instar/policy'
import { batteryOf, probeShortage } from '@instar/publisher/battery'
import { probesOf } from '@instar/publisher'
import { readOnlyQuery, runningPostgres, startPostgres } from '@instar/projections'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { logTarget } from '@instar/process'
import { folderFindings, nodeFindings } from '@instar/process/machine-findings'
import { requestAdmin } from '../admin-client.ts'
import { gatewayUrl, type Config } from '../config.ts'
import { readLearning } from '../learning-now.ts'
import { learningSettings } from '../learning-settings.ts'
import { hasLog, postgresFolder, withLog } from '../log-access.ts'
import { readVersionHistory } from '../versions.ts'
import { note, ok, unsure, type Check } from './finding.ts'
import { refusedKeyFinding } from './gateways.ts'
import { readRecords } from './records.ts'
import { namedServerFindings } from './trainer.ts'

/** How long an engine or a judge behind HTTP, or a gateway, may take to answer. */
const TIMEOUT_MS = 5000

export const nodeCheck: Check = { name: 'node', run: async () => nodeFindings() }

/** Checks the nearest existing folder where the data folder does not exist yet. */
export const dataFolderCheck: Check = { name: 'data folder', run: ({ data }) => folderFindings(data) }

/** Throws for a gap in a chain, and for a damaged or unknown record. */
export const logCheck: Check = {
  name: 'log',
  async run(config, stop) {
    if (!hasLog(config)) return [ok('none yet')]
    const {
      summary,
      unreadable: [first],
    } = await withLog(config, readRecords, stop)
    if (first) throw new InstarError('bad_record', first.reason, first)
    return [ok(summary)]
  },
}

/** Weights to learn with, here or on a training server. */
const hasLearner = (config: Config): boolean =>
  holdsWeights(config.model) || (isRemote(config) && learningSettings(config).trainer.server !== 'embedded')

export const modelCheck: Check = {
  name: 'model',
  async run(config, stop) {
    if (isRemote(config) && !givesIds(config)) return [ok('none: the engine takes messages; turns are captured only')]
    const learns = hasLearner(config)
    const model = await (isRemote(config) ? openBase(config.model) : openModel(config.model))
    const { name, contextLength, vocabulary } = model
    if (!learns && isRemote(config))
      return [
        note(
          `${name}, tokenizer and chat template (${config.model})`,
          'To learn, add the weights to this folder; without them turns are captured only.',
        ),
      ]
    if (!logTarget(config).manyWriters) requireBase((await readVersionHistory(config, stop)).weights, model)
    return [ok(`${name}, context ${contextLength}, vocabulary ${vocabulary} (${config.model})`)]
  },
}

/** The files of probes, and whether the line has enough of them. */
export const gateCheck: Check = {
  name: 'gate',
  async run(config, stop) {
    if (!hasLearner(config)) return [ok('none: nothing is learned with this model')]
    const gate = learningSettings(config).publisher
    const { probes, own } = probesOf(config.model, gate)
    const known = `${own} own probes, ${probes.length - own} that ship`
    const { started } = logTarget(config).manyWriters
      ? { started: null }
      : (await readVersionHistory(config, stop)).weights
    const battery = batteryOf(started)
    const shortage = probeShortage(started, gate.battery.minimum)
    if (shortage !== '')
      return [note(shortage, 'Write probes of what the model must not forget (docs/learning.md, "Probes").')]
    return [ok(battery ? `${battery.kept.size} probes that the base answers, of ${battery.asked} asked` : known)]
  },
}

/** What learning does now, or why it does nothing. */
export const learningCheck: Check = {
  name: 'learning',
  async run(config, stop) {
    if (!holdsWeights(config.model)) return [ok('none: turns are captured only')]
    const history = await readVersionHistory(config, stop)
    const text = await readLearning(config, history, Date.now(), stop)
    const { frozen, rejectionsInARow } = history.weights
    if (frozen) return [note(text, 'Run `instar thaw` to resume learning.')]
    if (rejectionsInARow >= 3)
      return [note(text, 'Run `instar versions --rejected`; `instar rollback` returns to an earlier version.')]
    return [ok(text)]
  },
}

export const engineCheck: Check = {
  name: 'engine',
  async run(config) {
    if (isRemote(config)) {
      const { engine, line } = await openRemote(config, { startMs: TIMEOUT_MS })
      await engine.close()
      return [ok(line)]
    }
    const engine = await startServing({ model: config.model, engine: 'auto' })
    try {
      return [ok(engine.capabilities().fingerprint)]
    } finally {
      await engine.close()
    }
  },
}

/** Of the training server; nothing where updates are computed here. */
export const trainerCheck: Check = {
  name: 'trainer',
  async run(config) {
    const { trainer } = learningSettings(config)
    return trainer.server === 'embedded' ? [] : namedServerFindings(trainer)
  },
}

/** Starts the embedded PostgreSQL in a temporary folder unless one runs. */
export const databaseCheck: Check = {
  name: 'PostgreSQL',
  async run(config) {
    const version = async (connection: Parameters<typeof readOnlyQuery>[0]): Promise<string> =>
      String((await readOnlyQuery(connection, 'select version()'))[0]?.version).split(' on ')[0]!
    const running = config.database === null ? await runningPostgres(postgresFolder(config)) : undefined
    if (running) return [ok(`${await version(running.reader)}, embedded, running`)]
    const folder = makeTemporaryFolder('doctor')
    try {
      const postgres = await startPostgres({
        folder,
        ...(config.database === null ? {} : { url: config.database, readerPassword: config.databaseReaderPassword }),
        ...(config.postgresPrograms === null ? {} : { bin: config.postgresPrograms }),
      })
      try {
        return [
          ok(`${await version(postgres.reader)}, ${config.database === null ? 'embedded, starts' : 'by DATABASE_URL'}`),
        ]
      } finally {
        await postgres.stop()
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

const tryListen = (host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host, port }, () => server.close(() => resolve()))
  })

/** Where no gateway runs, checks that its port is free. */
export const gatewayCheck: Check = {
  name: 'gateway',
  async run(config) {
    const url = gatewayUrl(config)
    try {
      const status = await requestAdmin<{
        status: string
        problem: { message?: string } | null
        serving: number
        frozen: boolean
      }>(config, '/admin/status', undefined, { timeoutMs: TIMEOUT_MS })
      if (status.status !== 'ready')
        throw new InstarError(
          'not_served',
          `The gateway at ${url} is ${status.status}: ${status.problem?.message ?? 'see /health/ready'}`,
        )
      return [ok(`${url} serves version ${status.serving}${status.frozen ? ', learning is frozen' : ''}`)]
    } catch (error) {
      const refused = refusedKeyFinding(url, error)
      if (refused) return [refused]
      if (!(error instanceof InstarError) || error.code !== 'not_running') throw error
      const address = `${config.host}:${config.port}`
      await tryListen(config.host, config.port).catch((cause: unknown) => {
        throw new InstarError('address_in_use', `${address}: ${(cause as Error).message}`, {}, { cause })
      })
      return [ok(`not running; ${address} is free`)]
    }
  },
}

export const judgeCheck: Check = {
  name: 'judge',
  async run({ judge, judgeName }) {
    if (judgeName === 'self') return [ok('the base weights of the served model (INSTAR_JUDGE=self)')]
    if (judgeName === 'reactions') return [ok('reactions (INSTAR_JUDGE)')]
    if (judge === null) return [ok('reactions (INSTAR_JUDGE_URL selects a model instead)')]
    const response = await fetch(`${judge.url.replace(/\/$/, '')}/models`, {
      headers: judge.key === null ? {} : { authorization: `Bearer ${judge.key}` },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    }).catch((cause: unknown) => {
      throw new InstarError('not_running', `No judge answers at ${judge.url}.`, { url: judge.url }, { cause })
    })
    await response.body?.cancel()
    if (response.status === 401 || response.status === 403)
      throw new InstarError('invalid_api_key', `The judge at ${judge.url} refuses the key (HTTP ${response.status}).`)
    // Not every endpoint for chat completions lists its models.
    if (!response.ok)
      return [
        unsure(
          `${judge.url} answers, but lists no models (HTTP ${response.status}); the first scored turn will show whether ${judge.model} answers`,
        ),
      ]
    return [ok(`${judge.model} at ${judge.url}`)]
  },
}
