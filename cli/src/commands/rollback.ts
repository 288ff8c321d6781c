import { command, versionNumber } from '../command.ts'
import { ask, askEveryGateway, type Reply } from '../gateway.ts'

export default command('rollback', {
  usage: 'N [--why TEXT] [--keep-learning]',
  help: `
Moves the head to version N; returns when every gateway that answers at INSTAR_HOST serves it. Nothing is edited: it is a new record, and
numbers go on. Learning freezes in the same record, or the turns that still wait would undo it.

  --why TEXT       recorded with it
  --keep-learning  do not freeze

--json: {head, version, frozen}: as it is then; with --keep-learning a newer version may serve already`,
  options: { why: { type: 'string' }, 'keep-learning': { type: 'boolean' } },
  overrides: ['host', 'port'],
  positionals: [1, 1],
  async run({ config, positionals, values, answer }) {
    const version = versionNumber(positionals[0]!)
    const reply = await ask<Reply>(config, '/admin/rollback', {
      version,
      ...(values.why === undefined ? {} : { why: values.why }),
      keepLearning: values['keep-learning'] === true,
    })
    await askEveryGateway(config)
    // It was answered, so it counted; where learning goes on, a newer version may have followed already.
    const moved = reply.version === version ? '' : `moved to version ${version}; since then `
    answer(
      reply,
      () =>
        `${moved}version ${reply.version} serves; ${reply.frozen ? 'learning is frozen (`instar thaw` lets it go on)' : 'learning goes on'}\n`,
    )
  },
})
