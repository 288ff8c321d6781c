/** The gateway that a scorer of its own process asks. */
import type { Settings } from '@instar/process'
import { adminToken } from '@instar/process/admin-token'
import type { GatewayAddress } from './self-judge.ts'

/**
 * A token of INSTAR_ADMIN_TOKEN is sent unasked: whoever sets it has chosen the address with it. So is that of a file over
 * HTTPS, where the certificate shows whose server it is; over HTTP the gateway proves first that it knows it. The gateway may
 * not have started: who comes first makes the file. Rejects as `adminToken`.
 */
export const ownGateway =
  ({
    gatewayUrl: url,
    adminToken: given,
    adminTokenFile,
  }: Pick<Settings, 'gatewayUrl' | 'adminToken' | 'adminTokenFile'>) =>
  async (): Promise<GatewayAddress> =>
    given === null
      ? { url, key: adminToken(adminTokenFile), proves: new URL(url).protocol === 'http:' }
      : { url, key: given }
