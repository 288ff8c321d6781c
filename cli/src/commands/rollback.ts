import { requestAdmin, waitForGateways, type HeadReply } from '../admin-client.ts'
import { command, parseVersion } from '../command.ts'

export default command('rollback', {
  usage: 'N [--why TEXT] [--keep-learning]',
  help: `
Moves the head to version N, and returns when every gateway that answers at INSTAR_HOST serves it. The move is a new
record; no version is changed or deleted. The same record freezes learning, since otherwise the next update would
replace the version.

  --why TEXT       reason, stored in the record
  --keep-learning  do not freeze learning

--json: {head, version, frozen} after the move; with --keep-learning a newer version may already serve`,
  options: { why: { type: 'string' }, 'keep-learning': { type: 'boolean' } },
  overrides: ['host', 'port'],
  positionals: [1, 1],
  async run({ config, positionals, values, print }) {
    const version = parseVersion(positionals[0]!)
    const reply = await requestAdmin<HeadReply>(config, '/admin/rollback', {
      version,
      ...(values.why === undefined ? {} : { why: values.why }),
      keepLearning: values['keep-learning'] === true,
    })
    await waitForGateways(config)
    // The gateway replies after the move has taken effect; with --keep-learning a newer version may follow before that.
    const moved = reply.version === version ? '' : `moved to version ${version}; since then `
    const learning = reply.frozen ? 'learning is frozen (`instar thaw` resumes it)' : 'learning continues'
    print(reply, () => `${moved}version ${reply.version} serves; ${learning}\n`)
  },
})
