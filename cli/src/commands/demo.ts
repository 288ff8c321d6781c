import { command, UsageError } from '../command.ts'
import { requireEmbedded } from '../config.ts'
import { engineOf } from '../engine.ts'
import { runDemo } from '../demo/run.ts'

/** Enough to see every part at work, too little to converge. */
const SHORT = { sessions: 24, evaluation: 60 }

const count = (text: string | undefined, name: string): number | undefined => {
  if (text === undefined) return undefined
  if (!/^\d{1,6}$/.test(text)) throw new UsageError(`--${name} ${text} is not a whole number`)
  return Number(text)
}

export default command('demo', {
  usage: '[--seed N] [--short] [--engine E] [--keep]',
  help: `
Starts the pipeline in a temporary folder and lets three simulated people talk to it through the openai client:
one dislikes markup, one wants long answers, one wants warmth. Measures what it learned, and whether its answers
stayed right, on questions that none of them asked.

  --seed N      whom they meet and what they say (default 1)
  --short       ${SHORT.sessions} sessions and fewer questions: shows that it runs, not how well it learns
  --sessions N  at most so many sessions
  --engine E    onnx, wasm or, where it is built, tfjs-node (default auto: the fastest of the first two that loads)
  --keep        leave the folder for a look inside

--json: one object with engine, seed, users, versions, requests, failed_requests, correct_before, correct_after,
wall_s, log_bytes`,
  options: {
    seed: { type: 'string', default: '1' },
    short: { type: 'boolean' },
    sessions: { type: 'string' },
    engine: { type: 'string', default: 'auto' },
    keep: { type: 'boolean' },
  },
  overrides: ['model'],
  async run({ config, values, json, answer, out, err }) {
    requireEmbedded(config)
    const sessions = count(values.sessions, 'sessions')
    const result = await runDemo({
      seed: count(values.seed, 'seed') ?? 1,
      model: config.model,
      engine: engineOf(values.engine),
      keep: values.keep === true,
      json,
      write: json ? err : out,
      ...(values.short === true ? SHORT : {}),
      ...(sessions === undefined ? {} : { sessions }),
    })
    if (json) answer(result, () => '')
    return result.failed_requests === 0
  },
})
