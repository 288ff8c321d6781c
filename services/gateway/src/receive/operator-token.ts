/** The admin token of a gateway, and what of it may be proven to whoever asks. */
import { adminToken } from '@instar/process/admin-token'
import type { GatewayConfig } from '../config.ts'

/**
 * `token` null: commands need an API key. `fileToken`: the token, if it is that of a file; one of the environment may be
 * chosen by somebody, and a proof would let others guess at it. Makes the file. Throws as `adminToken`.
 */
export const operatorToken = ({
  adminToken: token,
  adminTokenFile: file,
}: Pick<GatewayConfig, 'adminToken' | 'adminTokenFile'>): { token: string | null; fileToken: string | null } => {
  if (token !== null || file === null) return { token, fileToken: null }
  const fileToken = adminToken(file)
  return { token: fileToken, fileToken }
}
