/** TLS and SASL of connections to the brokers. */
import type { SASLOptions } from 'kafkajs'
import { connect, isIP, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'

const SASL_MECHANISMS = ['plain', 'scram-sha-256', 'scram-sha-512'] as const
type SaslMechanism = (typeof SASL_MECHANISMS)[number]

export type Security = {
  /**
   * In PEM. `ca`: certificate authorities of the brokers (default: those of Node); `cert` and `key`: the client
   * certificate, if brokers require one. Absent: no TLS.
   */
  tls?: { ca?: string; cert?: string; key?: string }
  sasl?: { mechanism: SaslMechanism; username: string; password: string }
}

type SocketOptions = { host: string; port: number; ssl?: Security['tls']; onConnect: () => void }

/** kafkajs's socket factory. Verifies that the broker's certificate is valid for its host name. */
export const socketFactory = ({ host, port, ssl, onConnect }: SocketOptions): Socket => {
  const socket = ssl
    ? connectSecurely({ host, port, ...(isIP(host) ? {} : { servername: host }), ...ssl }, onConnect)
    : connect({ host, port }, onConnect)
  return socket.setKeepAlive(true, 60_000).setNoDelay(true)
}

/** The options as kafkajs expects them. */
export const kafkajsSecurity = ({ tls, sasl }: Security = {}): {
  ssl?: NonNullable<Security['tls']>
  sasl?: SASLOptions
} => ({
  ...(tls ? { ssl: tls } : {}),
  ...(sasl ? { sasl } : {}),
})
