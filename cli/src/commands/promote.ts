import { InstarError } from '@instar/events/errors'
import { openModel, startLearning } from '@instar/policy'
import { logTarget } from '@instar/process'
import { createPublisher, probesOf, publisherConfig } from '@instar/publisher'
import { weightLine } from '@instar/events'
import { command } from '../command.ts'
import type { Config } from '../config.ts'
import { askEveryGateway, askLines, type Reply } from '../gateway.ts'
import { openWritable, POLICY } from '../lines.ts'

type Promotion = Reply & { accepted?: boolean; reason?: string | null }

/** On Kafka any process may put a branch through the gate: this one does, as a publisher that decides nothing else. */
const alone = async (config: Config, branch: string, stop: AbortSignal): Promise<Promotion> => {
  const fault = Promise.withResolvers<never>()
  fault.promise.catch(() => undefined)
  const log = await openWritable(config)
  try {
    const [model, learner] = await Promise.all([
      openModel(config.model),
      startLearning({ model: config.model, engine: 'auto', signal: stop }),
    ])
    try {
      const publisher = createPublisher(
        {
          log,
          learner,
          model,
          probes: probesOf(config.model),
          now: Date.now,
          onFatal: fault.reject,
          promotionsOnly: true,
        },
        publisherConfig.parse({ policy: POLICY }),
      )
      try {
        await publisher.start()
        const verdict = await Promise.race([publisher.promote(`${POLICY}~${branch}`), fault.promise, aborted(stop)])
        const line = weightLine(publisher.state.weights, POLICY)
        return { head: line.head, version: line.head, frozen: line.frozen, ...verdict }
      } finally {
        await publisher.stop()
      }
    } finally {
      await learner.close()
    }
  } finally {
    await log.close()
  }
}

const aborted = (stop: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    stop.addEventListener('abort', () => reject(new InstarError('aborted', 'The command was given up.')), {
      once: true,
    })
  })

export default command('promote', {
  usage: 'NAME',
  help: `
Puts the last version of a branch (made by \`instar replay --branch NAME\`) through the gate and, if it passes,
makes it the next version of the policy.

--json: {accepted, reason, head, version, frozen}`,
  options: {},
  overrides: ['host', 'port', 'model'],
  positionals: [1, 1],
  async run({ config, positionals, answer, stop }) {
    let said: Promotion | null = null
    const { manyWriters } = logTarget(config)
    if (manyWriters) said = await alone(config, positionals[0]!, stop)
    else
      for await (const line of askLines<Promotion>(config, '/admin/promote', { branch: positionals[0]! }, stop))
        said = line
    const reply = said as Promotion | null
    if (!reply) throw new InstarError('no_reply', 'The gateway ended its answer before the verdict.')
    const accepted = reply.accepted !== false
    if (accepted && manyWriters) await askEveryGateway(config)
    answer(reply, () =>
      accepted
        ? `version ${reply.version} serves, promoted from ${positionals[0]}\n`
        : `refused by the gate: ${reply.reason ?? 'see its figures in the log'}\n`,
    )
    return accepted
  },
})
