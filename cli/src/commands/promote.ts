import { weightLine } from '@instar/events'
import { InstarError } from '@instar/events/errors'
import { openBase, startLearning } from '@instar/policy'
import { logTarget } from '@instar/process'
import { createPublisher, onDemand, openGate, probesOf } from '@instar/publisher'
import { streamAdmin, waitForGateways, type HeadReply } from '../admin-client.ts'
import { escapeControls } from '@instar/process/printable'
import { command } from '../command.ts'
import type { Config } from '../config.ts'
import { learningSettings } from '../learning-settings.ts'
import { openWritable, POLICY } from '../log-access.ts'

type PromoteReply = HeadReply & { accepted?: boolean; reason?: string | null }

/** Runs a publisher that decides on this promotion only. For a log on Kafka, to which any process may write. */
const promoteInProcess = async (
  config: Config,
  branch: string,
  why: string,
  stop: AbortSignal,
): Promise<PromoteReply> => {
  const fatal = Promise.withResolvers<never>()
  fatal.promise.catch(() => undefined)
  const log = await openWritable(config)
  try {
    const learner = onDemand(() => startLearning({ model: config.model, engine: 'auto', signal: stop }))
    try {
      const gate = learningSettings(config).publisher
      const model = await openBase(config.model)
      const { evaluator, trained, close } = await openGate(config, gate, learner.get, { signal: stop })
      const publisher = createPublisher(
        {
          log,
          evaluator,
          ...(trained ? { trained } : {}),
          model,
          probes: probesOf(config.model, gate, stop),
          now: Date.now,
          onFatal: fatal.reject,
          promotionsOnly: true,
        },
        gate,
      )
      try {
        await publisher.start()
        const promotion = publisher.promote(`${POLICY}~${branch}`, {
          who: 'instar promote',
          why: why
            .replace(/\p{Cc}+/gu, ' ')
            .trim()
            .slice(0, 200),
        })
        const verdict = await Promise.race([promotion, fatal.promise, rejectWhenAborted(stop)])
        const line = weightLine(publisher.state.weights, POLICY)
        return { head: line.head, version: line.head, frozen: line.frozen, ...verdict }
      } finally {
        await Promise.all([publisher.stop(), close()])
      }
    } finally {
      await learner.close()
    }
  } finally {
    await log.close()
  }
}

const rejectWhenAborted = (stop: AbortSignal): Promise<never> =>
  new Promise((_, reject) => {
    stop.addEventListener('abort', () => reject(new InstarError('aborted', 'The command was aborted.')), {
      once: true,
    })
  })

/** Sends the promotion to the gateway, and resolves with the last line of its reply. */
const promoteByGateway = async (
  config: Config,
  branch: string,
  why: string,
  stop: AbortSignal,
): Promise<PromoteReply> => {
  let reply: PromoteReply | null = null
  for await (const line of streamAdmin<PromoteReply>(config, '/admin/promote', { branch, why }, stop)) reply = line
  if (!reply) throw new InstarError('no_reply', 'The gateway ended its reply before the verdict.')
  return reply
}

export default command('promote', {
  usage: 'NAME [--why TEXT]',
  help: `
Puts the last version of a branch (made by \`instar replay --branch NAME\`) through the gate. If it passes, it becomes the
next version of the policy.

  --why TEXT  reason, stored in the record of the verdict

--json: {accepted, reason, head, version, frozen}. Exit code 0 if accepted`,
  options: { why: { type: 'string' } },
  overrides: ['host', 'port', 'model'],
  positionals: [1, 1],
  async run({ config, positionals: [branch], values: { why = '' }, print, stop }) {
    const { manyWriters } = logTarget(config)
    const reply = await (manyWriters ? promoteInProcess : promoteByGateway)(config, branch!, why, stop)
    const accepted = reply.accepted !== false
    if (accepted && manyWriters) await waitForGateways(config)
    print(reply, () =>
      accepted
        ? `version ${reply.version} serves, promoted from ${branch}\n`
        : `rejected by the gate: ${escapeControls(reply.reason ?? 'the log holds its figures')}\n`,
    )
    return accepted
  },
})
