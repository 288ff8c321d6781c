import { command, UsageError } from '../command.ts'
import { requireEmbedded } from '../config.ts'
import { runDemo } from '../demo/run.ts'
import { parseEngine } from '../engine.ts'
import { learningSettings } from '../learning-settings.ts'

/** `--short`: enough sessions for a few updates, too few to converge. */
const SHORT = { sessions: 24, evaluation: 60 }

const parseCount = (text: string | undefined, name: string): number | undefined => {
  if (text === undefined) return undefined
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`--${name} ${text} is not a whole number of at most six digits`)
  return Number(text)
}

export default command('demo', {
  usage: '[--seed N] [--short] [--sessions N] [--engine E] [--keep]',
  help: `
Starts the pipeline in a temporary folder and lets three simulated users talk to it through the openai client: one
dislikes markup, one wants long answers, one wants warmth. Measures on held-out questions how well the answers suit
each user, and whether they are correct, before and after.

  --seed N      seed of the users' questions and replies (default 1)
  --short       ${SHORT.sessions} sessions and fewer questions: a smoke test, not a measurement
  --sessions N  maximum number of sessions
  --engine E    onnx, wasm or, where it is built, tfjs-node (default auto: the faster of onnx and wasm that loads)
  --keep        keep the temporary folder

--json: one object with engine, seed, users, versions, requests, failed_requests, correct_before, correct_after,
wall_s, log_bytes. Exit code 0 if no request failed`,
  options: {
    seed: { type: 'string', default: '1' },
    short: { type: 'boolean' },
    sessions: { type: 'string' },
    engine: { type: 'string', default: 'auto' },
    keep: { type: 'boolean' },
  },
  overrides: ['model'],
  async run({ config, values, json, print, out, err }) {
    requireEmbedded(config)
    const sessions = parseCount(values.sessions, 'sessions')
    const result = await runDemo({
      seed: parseCount(values.seed, 'seed') ?? 1,
      model: config.model,
      learning: learningSettings(config),
      engine: parseEngine(values.engine),
      keep: values.keep === true,
      json,
      write: json ? err : out,
      ...(values.short === true ? SHORT : {}),
      ...(sessions === undefined ? {} : { sessions }),
    })
    if (json) print(result, () => '')
    return result.failed_requests === 0
  },
})
