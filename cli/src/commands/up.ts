import { InstarError } from '@instar/events/errors'
import { checkBind } from '@instar/gateway/guard'
import { readKeyState } from '@instar/gateway/keyring'
import { isRemote } from '@instar/gateway/open-remote'
import { logTarget, readSettings } from '@instar/process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { logEntry } from '@instar/process/printable'
import { command } from '../command.ts'
import { OVERRIDES, type Config } from '../config.ts'
import { parseEngine, parseLearnEngine } from '../engine.ts'
import { learningSettings } from '../learning-settings.ts'
import { startPipeline, type Pipeline } from '../pipeline.ts'
import { rejectionAlarm, rejectionReason } from '../rejections.ts'
import { readVersionHistory } from '../versions.ts'

/** The shipped model: the default of INSTAR_MODEL without an environment. */
const isShippedModel = (config: Config): boolean => config.model === readSettings({}, '/').model

const modelText = (config: Config, { model }: Pipeline): string =>
  isRemote(config)
    ? model.name
    : isShippedModel(config)
      ? `${model.name}: a small model that shows the training loop. It answers short questions. It cannot drive a\n           coding agent, whose prompts exceed its context of ${model.contextLength} tokens; --model selects another one.`
      : `${model.name} (${config.model}), context ${model.contextLength} tokens`

/** Empty where the serving engine also computes the updates. */
const learningLine = ({ serving, learning }: Pipeline): string =>
  learning === null
    ? '\n  learning none: turns are captured only'
    : serving.split(';')[0] === learning.split(' ')[0]
      ? ''
      : `\n  learning ${learning}`

const welcome = (config: Config, pipeline: Pipeline, { head, frozen }: HeadState, batchSize: number): string => `
Instar is running. Version ${head} of the policy serves${frozen ? '; learning is frozen (`instar thaw` resumes it)' : ''}.

  gateway  ${pipeline.url}/v1   (any OpenAI client; model: policy)
  pages    ${pipeline.url}/   (in a browser; \`npx instar open\` for a link that may also act)
  engine   ${pipeline.serving}${learningLine(pipeline)}
  model    ${modelText(config, pipeline)}
  data     ${config.data}
  SQL      ${pipeline.psql ?? 'no database'}
           npx instar sql "select * from version_metrics"

  Send a request:
    import OpenAI from 'openai'
    const client = new OpenAI({ baseURL: '${pipeline.url}/v1', apiKey: 'none' })
    const answer = await client.chat.completions.create({
      model: 'policy', messages: [{ role: 'user', content: 'What is the capital of France?' }],
    })
    console.log(answer.choices[0].message.content)
  Give feedback in the next message, or POST /v1/feedback {"session_id": "…", "value": true}:
  ${pipeline.learning === null ? 'it is written to the log.' : `every ${batchSize} scored turns become an update.`} Ctrl-C stops Instar.
`

const POLL_MS = 25

type HeadState = { head: number; frozen: boolean }

/**
 * Waits for the first record of the policy's version line, which the publisher writes at the first start: other
 * commands need it. Null: `stop` was aborted.
 */
const waitForLine = async (config: Config, pipeline: Pipeline, stop: AbortSignal): Promise<HeadState | null> => {
  while (!stop.aborted) {
    const line = await pipeline.line()
    if (!line) return (await readVersionHistory(config)).weights
    if (line.started) return line
    await delay(POLL_MS)
  }
  return null
}

/** Null: the start was aborted by `stop`. */
const nullIfAborted = async (stop: AbortSignal, starting: Promise<Pipeline>): Promise<Pipeline | null> => {
  try {
    return await starting
  } catch (error) {
    if (stop.aborted && error instanceof InstarError && error.code === 'aborted') return null
    throw error
  }
}

export default command('up', {
  usage: '[--engine auto|onnx|wasm|tfjs-node] [--learn-engine E]',
  help: `
Starts gateway, scorer, trainer, publisher and projections in one process, on the log of INSTAR_LOG (default: the
embedded one) and the PostgreSQL of DATABASE_URL (default: an embedded one). Continues from what is on the log. SIGINT or
SIGTERM stops it gracefully.

  --engine E        onnx or wasm (default auto: the faster one that loads); tfjs-node where it is built, for
                    experiments, since it decodes slowly
  --learn-engine E  engine that computes the updates (default INSTAR_LEARN_ENGINE, else as --engine)

--json: one object {url, data, psql, engine, learning, model, version, frozen} when the pipeline runs`,
  options: { engine: { type: 'string', default: 'auto' }, 'learn-engine': { type: 'string' } },
  overrides: Object.keys(OVERRIDES) as (keyof typeof OVERRIDES)[],
  async run({ config, values, print, err, stop }) {
    const engine = parseEngine(values.engine)
    const learnEngine = parseLearnEngine(values['learn-engine'], config.learnEngine, values.engine)
    if (!statSync(config.model, { throwIfNoEntry: false }))
      throw new InstarError('bad_checkpoint', `${config.model} does not exist. Set INSTAR_MODEL or --model.`, {
        file: config.model,
      })
    const { trainer, publisher, scorer, values: learningValues } = learningSettings(config)
    checkBind(config.host, readKeyState(config.keyFile).locked, config.open)
    const fatal = Promise.withResolvers<Error>()
    const pipeline = await nullIfAborted(
      stop,
      startPipeline(
        {
          data: config.data,
          checkpoints: config.checkpoints,
          checkpointing: config.checkpointing,
          log: config,
          model: config.model,
          baseAdapter: config.baseAdapter,
          engine,
          learnEngine,
          ...(isRemote(config) ? { remote: config } : {}),
          database: config.database,
          databaseReaderPassword: config.databaseReaderPassword,
          postgresPrograms: config.postgresPrograms,
          gateway: {
            host: config.host,
            port: config.port,
            open: config.open,
            keyFile: config.keyFile,
            adminToken: config.adminToken,
            adminTokenFile: config.adminTokenFile,
            origins: config.origins,
            ...config.limits,
          },
          scorer,
          trainer,
          publisher,
          values: learningValues,
        },
        {
          logLine: (line) => err(`${logEntry(line)}\n`),
          onVerdict: ({ version, reason, rejectionsInARow, figures }) =>
            err(
              reason === null
                ? `version ${version} serves\n`
                : `an update was rejected, ${rejectionReason(reason, figures)}\n${rejectionAlarm(rejectionsInARow, { reason, figures })}`,
            ),
          onFatal: fatal.resolve,
          signal: stop,
        },
      ),
    )
    if (!pipeline) return
    try {
      const failed = fatal.promise.then((error) => {
        throw error
      })
      const line = await Promise.race([waitForLine(config, pipeline, stop), failed])
      if (line) {
        print(
          {
            url: pipeline.url,
            data: config.data,
            psql: pipeline.psql,
            engine: pipeline.serving,
            learning: pipeline.learning,
            model: pipeline.model.name,
            version: line.head,
            frozen: line.frozen,
          },
          () => welcome(config, pipeline, line, trainer.batchSize),
        )
      }
      if (!stop.aborted) await Promise.race([failed, once(stop, 'abort')])
      err('stopping …\n')
    } finally {
      await pipeline.stop()
    }
    err(`stopped; the log is ${logTarget(config).address}\n`)
  },
})
