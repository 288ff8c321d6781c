import { command } from '../command.ts'
import { ask, type Reply } from '../gateway.ts'

type Promotion = Reply & { accepted?: boolean; reason?: string | null }

export default command('promote', {
  usage: 'NAME',
  help: `
Puts the last version of a branch (made by \`instar replay --branch NAME\`) through the gate and, if it passes,
makes it the next version of the policy.

--json: {accepted, reason, head, version, frozen}`,
  options: {},
  overrides: ['host', 'port'],
  positionals: [1, 1],
  async run({ config, positionals, answer }) {
    const reply = await ask<Promotion>(config, '/admin/promote', { branch: positionals[0]! }, { timeoutMs: 600_000 })
    const accepted = reply.accepted !== false
    answer(reply, () => (accepted ? `version ${reply.version} serves, promoted from ${positionals[0]}\n` : `refused by the gate: ${reply.reason ?? 'see its figures in the log'}\n`))
    return accepted
  },
})
