import { requestAdmin, type HeadReply } from '../admin-client.ts'
import { command } from '../command.ts'

export default command('thaw', {
  usage: '[--why TEXT]',
  help: `
Resumes learning after a rollback or a freeze.

  --why TEXT  reason, stored in the record

--json: {head, version, frozen}. Exit code 0 if learning is not frozen`,
  options: { why: { type: 'string' } },
  overrides: ['host', 'port'],
  async run({ config, values, print }) {
    const body = values.why === undefined ? {} : { why: values.why }
    const reply = await requestAdmin<HeadReply>(config, '/admin/thaw', body)
    print(reply, () => `learning resumes from version ${reply.head}\n`)
    return !reply.frozen
  },
})
