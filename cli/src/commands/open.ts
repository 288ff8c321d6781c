import { requestAdmin } from '../admin-client.ts'
import { gatewayUrl } from '../config.ts'
import { command } from '../command.ts'

type Link = { path: string; expires_in: number }

/** The address at which a browser on this machine reaches the gateway. */
const browserUrl = (given: string | undefined, gateway: Parameters<typeof gatewayUrl>[0]): string =>
  (given ?? gatewayUrl(gateway)).replace(/\/+$/, '')

export default command('open', {
  usage: '[--url URL]',
  help: `
Prints a link that opens the dashboard with every right: texts, roll back, freeze. Without the admin token the key in
INSTAR_KEY makes it, which needs the scope admin: the link has that key's rights, and ends with it. It works once, within
five minutes, and only at the gateway that made it. The session ends after twelve hours.

  --url URL  the address of the gateway as the browser knows it, if it is another

--json: {url, expires_in}, in seconds`,
  options: { url: { type: 'string' } },
  overrides: ['host', 'port'],
  async run({ config, values, print }) {
    const { path, expires_in } = await requestAdmin<Link>(config, '/admin/dashboard-link', {})
    const url = `${browserUrl(values.url, config)}${path}`
    print({ url, expires_in }, () => `${url}\n`)
  },
})
