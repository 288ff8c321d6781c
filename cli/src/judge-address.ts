/** The gateway of `npm start`, as its scorer asks it. */
import { adminTokenIn } from '@instar/process'
import { readAdminToken } from '@instar/process/admin-token'
import type { GatewayAddress } from '@instar/scorer'
import { gatewayUrl } from './config.ts'
import type { PipelineConfig } from './pipeline-config.ts'

/**
 * Where the base weights judge; null: without a token nowhere. While the pipeline stops, the services judge for a moment
 * longer than the gateway has its port, at which another user may then listen: it proves that it knows the token of a file.
 */
export const judgeAddress = (
  {
    data,
    gateway: { host = '127.0.0.1', adminToken = null, adminTokenFile },
  }: Pick<PipelineConfig, 'data' | 'gateway'>,
  port: number,
): GatewayAddress | null => {
  const key = adminToken ?? readAdminToken(adminTokenFile ?? adminTokenIn(data))
  return key === null ? null : { url: gatewayUrl({ host, port }), key, proves: adminToken === null }
}
