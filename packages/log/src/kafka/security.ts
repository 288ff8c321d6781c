/** How brokers are spoken to: over TLS, and under which name. */
import type { SASLOptions } from 'kafkajs'
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

const SASL_MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512'] as const
type SaslMechanism = (typeof SASL_MECHANISMS)[number]

export type Security = {
  /**
   * PEM texts. `ca`: who may have signed the brokers' certificates (default: those of Node); `cert` and `key`: ours,
   * where brokers ask for one. Absent: no TLS.
   */
  tls?: { ca?: string; cert?: string; key?: string }
  sasl?: { mechanism: SaslMechanism; username: string; password: string }
}

type SocketWanted = { host: string; port: number; ssl?: Security['tls']; onConnect: () => void }

/** The broker's certificate has to be for the name that it was called by. */
export const socketFactory = ({ host, port, ssl, onConnect }: SocketWanted): Socket => {
  const socket = ssl
    ? connectSecurely({ host, port, ...(isIP(host) ? {} : { servername: host }), ...ssl }, onConnect)
    : connect({ host, port }, onConnect)
  return socket.setKeepAlive(true, 60_000).setNoDelay(true)
}

/** As kafkajs takes them. */
export const kafkajsSecurity = ({ tls, sasl }: Security = {}): {
  ssl?: NonNullable<Security['tls']>
  sasl?: SASLOptions
} => ({
  ...(tls ? { ssl: tls } : {}),
  ...(sasl ? { sasl } : {}),
})
