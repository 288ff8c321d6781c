import { InstarError } from '@instar/events/errors'
import { command } from '../command.ts'
import { askLines, type Reply } from '../gateway.ts'

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
  async run({ config, positionals, answer, stop }) {
    let said: Promotion | null = null
    for await (const line of askLines<Promotion>(config, '/admin/promote', { branch: positionals[0]! }, stop)) said = line
    const reply = said as Promotion | null
    if (!reply) throw new InstarError('no_reply', 'The gateway ended its answer before the verdict.')
    const accepted = reply.accepted !== false
    answer(reply, () => (accepted ? `version ${reply.version} serves, promoted from ${positionals[0]}\n` : `refused by the gate: ${reply.reason ?? 'see its figures in the log'}\n`))
    return accepted
  },
})
