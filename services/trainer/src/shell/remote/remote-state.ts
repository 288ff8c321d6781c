/** The state of a trainer whose weights and optimizer are on a server. */

/** The trainer's state of a version on a server, stored as a blob like the embedded trainer's optimizer state. */
export type RemoteState = { tinker: { url: string; path: string; model: string; adapter: string } }

export const writeRemoteState = (state: RemoteState): Uint8Array => new TextEncoder().encode(JSON.stringify(state))

/** Null for the optimizer state of the embedded trainer. */
export const readRemoteState = (bytes: Uint8Array): RemoteState | null => {
  try {
    const value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Partial<RemoteState> | null
    return typeof value?.tinker?.path === 'string' ? (value as RemoteState) : null
  } catch {
    return null
  }
}
