import { command } from '../command.ts'
import { ask, type Reply } from '../gateway.ts'

export default command('thaw', {
  usage: '[--why TEXT]',
  help: `
Lets learning go on after a rollback or a freeze.

  --why TEXT  recorded with it

--json: {head, version, frozen}`,
  options: { why: { type: 'string' } },
  overrides: ['host', 'port'],
  async run({ config, values, answer }) {
    const reply = await ask<Reply>(config, '/admin/thaw', values.why === undefined ? {} : { why: values.why })
    answer(reply, () => `learning goes on from version ${reply.head}\n`)
    return !reply.frozen
  },
})
