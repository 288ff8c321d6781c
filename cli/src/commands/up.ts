import { InstarError } from '@instar/events/errors'
import { checkBind } from '@instar/gateway/guard'
import { readKeyState } from '@instar/gateway/keyring'
import { isRemote } from '@instar/gateway/open-remote'
import { logTarget, readSettings } from '@instar/process'
import { once } from 'node:events'
import { statSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
import { command } from '../command.ts'
import { OVERRIDES, type Config } from '../config.ts'
import { engineOf, learnEngineOf } from '../engine.ts'
import { readLines } from '../lines.ts'
import { startPipeline, type Running } from '../pipeline.ts'

/** The same model as the default of INSTAR_MODEL, whatever the environment says now. */
const isTiny = (config: Config): boolean => config.model === readSettings({}, '/').model

const modelLine = (config: Config, running: Running): string =>
  isRemote(config)
    ? running.model.name
    : isTiny(config)
      ? `${running.model.name}: a small model that we trained to show the loop. It answers short questions; it does not drive a\n           coding agent, whose prompts alone are longer than its context of ${running.model.contextLength} tokens. --model takes a real one.`
      : `${running.model.name} (${config.model}), context ${running.model.contextLength} tokens`

/** A line of its own where another engine learns. */
const learnsApart = ({ serving, learning }: Running): string =>
  learning === null
    ? '\n  learns   nothing: turns are captured only'
    : serving.split(';')[0] === learning.split(' ')[0]
      ? ''
      : `\n  learns   ${learning}`

const welcome = (config: Config, running: Running, head: number, frozen: boolean): string => `
Instar is up: version ${head} of the policy serves${frozen ? '; learning is frozen (`instar thaw` lets it go on)' : ''}.

  gateway  ${running.url}/v1   (any OpenAI client; model: policy)
  engine   ${running.serving}${learnsApart(running)}
  model    ${modelLine(config, running)}
  data     ${config.data}
  look     ${running.psql ?? 'no database'}
           npx instar sql "select * from version_metrics"

  Talk to it:
    import OpenAI from 'openai'
    const client = new OpenAI({ baseURL: '${running.url}/v1', apiKey: 'none' })
    const answer = await client.chat.completions.create({
      model: 'policy', messages: [{ role: 'user', content: 'What is the capital of France?' }],
    })
    console.log(answer.choices[0].message.content)
  Thank or correct it in the next message, or POST /v1/feedback {"session_id": "…", "value": true}:
  ${running.learning === null ? 'it is on the log.' : 'every 16 scored turns become an update.'} Ctrl-C stops.
`

const LOOK_AGAIN_MS = 25

/**
 * Waits for the policy's line, which the publisher begins at the very first start: commands need it. Null: asked to
 * stop.
 */
const lineStarted = async (
  config: Config,
  running: Running,
  stop: AbortSignal,
): Promise<{ head: number; frozen: boolean } | null> => {
  while (!stop.aborted) {
    const line = await running.line()
    if (!line) return (await readLines(config)).weights
    if (line.started) return line
    await delay(LOOK_AGAIN_MS)
  }
  return null
}

/** Null where the start was given up because somebody asked to stop. */
const unlessStopped = async (stop: AbortSignal, starting: Promise<Running>): Promise<Running | null> => {
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
Starts gateway, scorer, trainer, publisher and projections in this process, on the log of INSTAR_LOG (default: the
embedded one) and the PostgreSQL of DATABASE_URL (default: an embedded one), and goes on where it stopped the last time. SIGINT or SIGTERM stops it in good order.

  --engine E        onnx or wasm (default auto: the fastest that loads); tfjs-node where it is built, for experiments: it
                    decodes slowly
  --learn-engine E  another one to learn with: tfjs-node (default INSTAR_LEARN_ENGINE, else as --engine)

--json: one object {url, data, psql, engine, learning, model, version, frozen} when it is up`,
  options: { engine: { type: 'string', default: 'auto' }, 'learn-engine': { type: 'string' } },
  overrides: Object.keys(OVERRIDES) as (keyof typeof OVERRIDES)[],
  async run({ config, values, answer, err, stop }) {
    const engine = engineOf(values.engine)
    const learnEngine = learnEngineOf(values['learn-engine'], config.learnEngine, values.engine)
    if (!statSync(config.model, { throwIfNoEntry: false }))
      throw new InstarError('bad_checkpoint', `There is no model at ${config.model}.`, { file: config.model })
    checkBind(config.host, readKeyState(config.keyFile).locked, config.open)
    const fault = Promise.withResolvers<Error>()
    const running = await unlessStopped(
      stop,
      startPipeline(
        {
          data: config.data,
          log: config,
          model: config.model,
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
          scorer: { idleMs: config.sessionIdleMs, ...(config.judge === null ? {} : { llm: config.judge }) },
          trainer: {},
          publisher: {},
        },
        { say: (line) => err(`${line}\n`), onFatal: fault.resolve, signal: stop },
      ),
    )
    if (!running) return
    try {
      const failed = fault.promise.then((error) => {
        throw error
      })
      const weights = await Promise.race([lineStarted(config, running, stop), failed])
      if (weights) {
        answer(
          {
            url: running.url,
            data: config.data,
            psql: running.psql,
            engine: running.serving,
            learning: running.learning,
            model: running.model.name,
            version: weights.head,
            frozen: weights.frozen,
          },
          () => welcome(config, running, weights.head, weights.frozen),
        )
      }
      if (!stop.aborted) await Promise.race([failed, once(stop, 'abort')])
      err('stopping …\n')
    } finally {
      await running.stop()
    }
    err(`stopped; ${logTarget(config).address} holds everything\n`)
  },
})
