/**
 * What `instar doctor` looks at: on one machine here, on Kafka with doctor/looks.ts. What a look throws is the finding
 * of a fault.
 */
import { InstarError, requireBase } from '@instar/events'
import { givesIds, isRemote, openRemote } from '@instar/gateway/open-remote'
import { holdsWeights, openModel, openTokenizer, startServing } from '@instar/policy'
import { readOnlyQuery, runningPostgres, startPostgres } from '@instar/projections'
import { mkdtemp, rm, stat, statfs, access, constants } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { logTarget } from '@instar/process'
import { gatewayUrl, type Config } from './config.ts'
import { fine, note, unsure, wrong, type Look } from './doctor/finding.ts'
import { refusedBy } from './doctor/gateways.ts'
import { kafkaLooks } from './doctor/looks.ts'
import { readRecords } from './doctor/records.ts'
import { stackOf } from './doctor/stack.ts'
import { ask } from './gateway.ts'
import { hasLog, postgresFolder, readLines, withLog } from './lines.ts'

/** How long an engine behind HTTP may take to answer. */
const PATIENCE_MS = 5000
const LEAST_FREE_BYTES = 2 ** 30

const node: Look = { name: 'node', of: async () => [fine(`${process.version} on ${process.platform}-${process.arch}`)] }

const data: Look = {
  name: 'data folder',
  async of(config) {
    let folder = config.data
    while (!(await stat(folder).catch(() => null)) && dirname(folder) !== folder) folder = dirname(folder)
    await access(folder, constants.W_OK).catch((cause: unknown) => {
      throw new InstarError('data_unreadable', `${folder} cannot be written to.`, { folder }, { cause })
    })
    const { bavail, bsize } = await statfs(folder)
    const gigabytes = `${((bavail * bsize) / 2 ** 30).toFixed(1)} GiB free`
    if (bavail * bsize < LEAST_FREE_BYTES)
      return [
        wrong(
          `${config.data}: only ${gigabytes}`,
          'Make room, or set INSTAR_DATA to a folder on another disk: where nothing can be written nothing is answered.',
        ),
      ]
    return [fine(`${config.data}${folder === config.data ? '' : ' (made by the first start)'}, ${gigabytes}`)]
  },
}

/** Every record decoded and folded: a gap in a chain, a damaged or unknown record throws. */
const log: Look = {
  name: 'log',
  async of(config) {
    if (!hasLog(config)) return [fine('none yet')]
    return withLog(config, async (opened) => {
      const {
        said,
        unreadable: [bad],
      } = await readRecords(opened)
      if (bad) throw new InstarError('bad_record', bad.reason, bad)
      return [fine(said)]
    })
  },
}

const model: Look = {
  name: 'model',
  async of(config) {
    if (isRemote(config) && !givesIds(config)) return [fine('none: the engine takes messages; turns are captured only')]
    const learns = holdsWeights(config.model)
    const opened = await (learns || !isRemote(config) ? openModel(config.model) : openTokenizer(config.model))
    const { name, contextLength, vocabulary } = opened
    if (!learns && isRemote(config))
      return [
        note(
          `${name}, tokenizer and chat template (${config.model})`,
          'Weights in this folder would let it learn; without them turns are captured only.',
        ),
      ]
    if (!logTarget(config).manyWriters) requireBase((await readLines(config)).weights, opened)
    return [fine(`${name}, context ${contextLength}, vocabulary ${vocabulary} (${config.model})`)]
  },
}

const engine: Look = {
  name: 'engine',
  async of(config) {
    if (isRemote(config)) {
      const { engine: remote, line } = await openRemote(config, { startMs: PATIENCE_MS })
      await remote.close()
      return [fine(line)]
    }
    const serving = await startServing({ model: config.model, engine: 'auto' })
    try {
      return [fine(serving.capabilities().fingerprint)]
    } finally {
      await serving.close()
    }
  },
}

const database: Look = {
  name: 'PostgreSQL',
  async of(config) {
    const version = async (connection: Parameters<typeof readOnlyQuery>[0]): Promise<string> =>
      String((await readOnlyQuery(connection, 'select version()'))[0]?.version).split(' on ')[0]!
    const running = config.database === null ? await runningPostgres(postgresFolder(config)) : undefined
    if (running) return [fine(`${await version(running.reader)}, embedded, running`)]
    const folder = await mkdtemp(join(tmpdir(), 'instar-doctor-'))
    try {
      const postgres = await startPostgres({
        folder,
        ...(config.database === null ? {} : { url: config.database, readerPassword: config.databaseReaderPassword }),
        ...(config.postgresPrograms === null ? {} : { bin: config.postgresPrograms }),
      })
      try {
        return [
          fine(
            `${await version(postgres.reader)}, ${config.database === null ? 'embedded, starts' : 'by DATABASE_URL'}`,
          ),
        ]
      } finally {
        await postgres.stop()
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  },
}

const listen = (host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host, port }, () => server.close(() => resolve()))
  })

const gateway: Look = {
  name: 'gateway',
  async of(config) {
    try {
      const status = await ask<{
        status: string
        problem: { message?: string } | null
        serving: number
        frozen: boolean
      }>(config, '/admin/status', undefined, { timeoutMs: 5000 })
      if (status.status !== 'ready')
        throw new InstarError(
          'not_served',
          `${gatewayUrl(config)} is ${status.status}: ${status.problem?.message ?? 'see /health/ready'}`,
        )
      return [
        fine(`${gatewayUrl(config)} serves version ${status.serving}${status.frozen ? ', learning is frozen' : ''}`),
      ]
    } catch (error) {
      const refused = refusedBy(gatewayUrl(config), error)
      if (refused) return [refused]
      if (!(error instanceof InstarError) || error.code !== 'not_running') throw error
      await listen(config.host, config.port).catch((cause: unknown) => {
        throw new InstarError(
          'address_in_use',
          `${config.host}:${config.port}: ${(cause as Error).message}`,
          {},
          { cause },
        )
      })
      return [fine(`not running; ${config.host}:${config.port} is free`)]
    }
  },
}

const judge: Look = {
  name: 'judge',
  async of({ judge: asked }) {
    if (asked === null) return [fine('rules on the next message (INSTAR_JUDGE_URL takes a model)')]
    const response = await fetch(`${asked.url.replace(/\/$/, '')}/models`, {
      headers: asked.key === null ? {} : { authorization: `Bearer ${asked.key}` },
      signal: AbortSignal.timeout(5000),
    }).catch((cause: unknown) => {
      throw new InstarError('not_running', `No judge answers at ${asked.url}.`, { url: asked.url }, { cause })
    })
    await response.body?.cancel()
    if (response.status === 401 || response.status === 403)
      throw new InstarError('invalid_api_key', `The judge at ${asked.url} refuses the key (HTTP ${response.status}).`)
    // Many endpoints that can judge list no models.
    if (!response.ok)
      return [
        unsure(
          `${asked.url} answers, but lists no models (HTTP ${response.status}); whether ${asked.model} judges shows with the first turn`,
        ),
      ]
    return [fine(`${asked.model} at ${asked.url}`)]
  },
}

/** What is to be looked at, in order; `close` when all was. */
export const looksOf = (config: Config): { looks: readonly Look[]; close(): Promise<void> } => {
  if (!logTarget(config).manyWriters)
    return { looks: [node, data, log, model, engine, database, gateway, judge], close: async () => undefined }
  const stack = stackOf(config)
  const { before, after } = kafkaLooks(stack)
  return { looks: [node, data, ...before, ...after, model, engine, judge], close: stack.close }
}
